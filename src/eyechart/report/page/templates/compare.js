// Two models on the same samples, and ranks over the suite. All numbers were computed when the page was made.

function compareView(main, params, pairs) {
  const known = [...new Set(pairs.flatMap((pair) => [pair.a, pair.b]))].sort((a, b) => a - b);
  const ranking = DATA.ranking;
  const byMean = ranking ? ranking.models : known;
  const pick = (name, fallback) => (params.has(name) && known.includes(Number(params.get(name))) ? Number(params.get(name)) : fallback);
  const a = pick("a", byMean[1] ?? known[0]);
  const b = pick("b", byMean[0] ?? known[1]);
  const options = known.map((m) => [m, MODELS[m].label]);
  const target = h("div", {});
  replace(
    main,
    h("h1", {}, t("Compare")),
    h("p", { class: "lead" }, t("Both models are judged on the very same samples.")),
    h("div", { class: "toolbar" }, select("A", options, a, (value) => go(`#/compare?a=${value}&b=${b}`)), select("B", options, b, (value) => go(`#/compare?a=${a}&b=${value}`)), button(t("Swap"), () => go(`#/compare?a=${b}&b=${a}`))),
    target,
    rankingSection(),
  );
  drawPair(target, pairs, a, b);
}

// A line as the report wrote it, or as it reads when the two models change places; it is a column, too.
function readLine(line, swap) {
  const i = BENCHMARKS[line.b].metrics.indexOf(line.metric);
  const percent = columnPercent({ b: line.b, i });
  if (!swap) return { ...line, i, percent };
  const minus = (value) => (value === null ? null : -value);
  const turned = { better: "worse", worse: "better" }[line.verdict] || line.verdict;
  const numbers = { first: line.second, second: line.first, difference: -line.difference, low: minus(line.high), high: minus(line.low) };
  return { ...line, ...numbers, i, percent, only_first: line.only_second, only_second: line.only_first, verdict: turned };
}

function samplesOf(line) {
  const n = line.units === line.n ? line.n : t("{n} in {units}", { n: line.n, units: line.units });
  return line.left_out > 0 ? t("{n}, {left} left out", { n, left: line.left_out }) : String(n);
}

function drawPair(target, pairs, a, b) {
  if (a === b) return replace(target, h("p", { class: "empty" }, t("Choose two different models.")));
  const pair = pairs.find((part) => (part.a === a && part.b === b) || (part.a === b && part.b === a));
  if (!pair) {
    return replace(target, h("p", { class: "empty" }, t("These two are not compared here: they have no samples of a benchmark in common, or only the best of many models are compared. Run: ")), h("code", { class: "command" }, "eyechart compare RESULTS_OF_A RESULTS_OF_B"));
  }
  const lines = pair.lines.map((line) => readLine(line, pair.a !== a));
  const better = lines.filter((line) => line.verdict === "better").length;
  const worse = lines.filter((line) => line.verdict === "worse").length;
  const rows = lines.filter((line) => line.percent).map((line) => ({ label: columnTitle(line), value: line.difference, low: line.low, high: line.high, mark: { better: "good", worse: "bad" }[line.verdict] || "tied", onclick: () => go(`#/benchmark/${line.b}?model=${b}`) }));
  return replace(
    target,
    h(
      "p",
      { class: "verdict-line" },
      tNodes("B ({model}) is {better}, {worse} and not separable on {rest} of {all}.", {
        model: data(MODELS[b].label),
        better: h("b", { class: better ? "good-text" : "" }, t("better on {n}", { n: better })),
        worse: h("b", { class: worse ? "bad-text" : "" }, t("worse on {n}", { n: worse })),
        rest: lines.length - better - worse,
        all: lines.length,
      }),
    ),
    rows.length > 0 && dotPlot(t("Difference between B and A by benchmark, in percentage points"), rows, { zero: true }),
    h("div", { class: "toolbar" }, copyMenu(() => pairGrid(lines, a, b))),
    plainTable(
      t("Differences"),
      [t("Benchmark"), "A", "B", "B − A", t("95 % interval"), t("p (Holm)"), t("only A / B right"), t("detectable"), "n", t("Verdict")],
      lines.map((line) =>
        h(
          "tr",
          {},
          h("th", { scope: "row" }, h("a", { href: `#/benchmark/${line.b}?model=${b}` }, data(columnTitle(line)))),
          h("td", {}, number(line.first, 1, line.percent), lostMark(a, line.b)),
          h("td", {}, number(line.second, 1, line.percent), lostMark(b, line.b)),
          h("td", {}, h("b", {}, signed(line.difference, 1, line.percent))),
          h("td", {}, line.low === null ? t("too few") : t("{low} to {high}", { low: signed(line.low, 1, line.percent), high: signed(line.high, 1, line.percent) })),
          h("td", { title: told(line.test) }, pText(line.p)),
          h("td", {}, line.only_first === null ? "–" : `${line.only_first} / ${line.only_second}`),
          h("td", {}, line.detectable === null ? "–" : number(line.detectable, 1, line.percent)),
          h("td", {}, samplesOf(line)),
          h("td", { class: { better: "good-text", worse: "bad-text" }[line.verdict] || "" }, t({ better: word("B better"), worse: word("A better") }[line.verdict] || line.verdict)),
        ),
      ),
    ),
    h("p", { class: "note" }, t("Intervals and p come from one paired test, in which the captions of an image count as one (for binary scores its statistic is McNemar's); p is corrected by Holm over the benchmarks of this pair. Detectable: the smallest true difference found in 4 of 5 cases with this many samples.")),
    lostNotes([...new Set(lines.map((line) => line.b))].flatMap((place) => [a, b].map((m) => ({ m, b: place })))),
  );
}

function pairGrid(lines, a, b) {
  return {
    header: ["benchmark", MODELS[a].label, MODELS[b].label, "difference", "low", "high", "p (Holm)"],
    rows: lines.map((line) => [columnTitle(line), ...[line.first, line.second, line.difference, line.low, line.high].map((value) => number(value, 2, line.percent)), pText(line.p)]),
    best: new Set(),
    note: "Paired on the same samples; 95 % intervals; fractions in per cent.",
  };
}

function rankingSection() {
  const ranking = DATA.ranking;
  if (!ranking) return null;
  const labels = ranking.models.map((m) => MODELS[m].label);
  const models = labels.length;
  return h(
    "section",
    {},
    h("h2", {}, t("Ranks over the suite")),
    h("p", {}, t("Over {count} on which all {models} models could be paired. A bar spans the possible ranks of a model; all bars hold simultaneously with 95 % confidence.", { count: count(ranking.benchmarks.length, "benchmark"), models })),
    chart(t("Rank intervals"), (width) => {
      const left = Math.min(width * 0.42, 14 + 7 * Math.max(...labels.map((label) => label.length)));
      const step = 26;
      const height = models * step + 34;
      const x = linear([1, models], [left + 20, width - 60]);
      return canvasOf(
        width,
        height,
        gridX(x, ticks(1, models, Math.min(models - 1, width / 60)).filter(Number.isInteger), 4, height - 24, String),
        labels.map((label, i) => {
          const y = 4 + step * (i + 0.5);
          const [low, high] = ranking.ranks[i];
          return svg("g", { class: "row rank" }, svg("title", {}, t("{model}: rank {rank}", { model: label, rank: low === high ? low : t("{low} to {high}", { low, high }) })), svg("text", { class: "name", x: left, y: y + 4, "text-anchor": "end" }, shorten(label, Math.floor(left / 6.6))), svg("line", { class: "band", x1: x(low), x2: x(high) + 0.01, y1: y, y2: y }), svg("text", { class: "value", x: width - 2, y: y + 4, "text-anchor": "end" }, number(ranking.means[i], 1, ranking.in_per_cent)));
        }),
      );
    }),
  );
}
