// Two models on the same samples, and ranks over the suite. All numbers were computed when the page was made.

async function compareView(main, params) {
  const pairs = await unpack("pairs");
  const known = [...new Set(pairs.flatMap((pair) => [pair.a, pair.b]))].sort((a, b) => a - b);
  const ranking = DATA.ranking;
  const byMean = ranking ? [...ranking.models].sort((x, y) => ranking.means[ranking.models.indexOf(y)] - ranking.means[ranking.models.indexOf(x)]) : known;
  const pick = (name, fallback) => (params.has(name) && known.includes(Number(params.get(name))) ? Number(params.get(name)) : fallback);
  const a = pick("a", byMean[1] ?? known[0]);
  const b = pick("b", byMean[0] ?? known[1]);
  const options = known.map((m) => [m, MODELS[m].label]);
  const target = h("div", {});
  replace(
    main,
    h("h1", {}, "Compare"),
    h("p", { class: "lead" }, "Both models are judged on the very same samples."),
    h("div", { class: "toolbar" }, select("A", options, a, (value) => go(`#/compare?a=${value}&b=${b}`)), select("B", options, b, (value) => go(`#/compare?a=${a}&b=${value}`)), button("Swap", () => go(`#/compare?a=${b}&b=${a}`))),
    target,
    rankingSection(),
  );
  drawPair(target, pairs, a, b);
}

// A line is [benchmark, metric, first, second, difference, low, high, p, test, n, units, only first, only second, detectable, verdict].
function readLine(line, swap) {
  const [b, metric, first, second, difference, low, high, p, test, n, units, onlyFirst, onlySecond, detectable, verdict] = line;
  const turned = { better: "worse", worse: "better" }[verdict] || verdict;
  return swap
    ? { b, metric, first: second, second: first, difference: -difference, low: -high, high: -low, p, test, n, units, onlyFirst: onlySecond, onlySecond: onlyFirst, detectable, verdict: turned }
    : { b, metric, first, second, difference, low, high, p, test, n, units, onlyFirst, onlySecond, detectable, verdict };
}

function drawPair(target, pairs, a, b) {
  if (a === b) return replace(target, h("p", { class: "empty" }, "Choose two different models."));
  const pair = pairs.find((part) => (part.a === a && part.b === b) || (part.a === b && part.b === a));
  if (!pair) {
    return replace(target, h("p", { class: "empty" }, "With this many models only the best are compared with each other. Run: "), h("code", { class: "command" }, "eyechart compare RESULTS_OF_A RESULTS_OF_B"));
  }
  const lines = pair.lines.map((line) => readLine(line, pair.a !== a));
  const better = lines.filter((line) => line.verdict === "better").length;
  const worse = lines.filter((line) => line.verdict === "worse").length;
  const title = (line) => `${BENCHMARKS[line.b].label} ${BENCHMARKS[line.b].short[BENCHMARKS[line.b].metrics.indexOf(line.metric)]}`;
  const rows = lines.map((line) => ({ label: title(line), value: line.difference, low: line.low, high: line.high, mark: { better: "good", worse: "bad" }[line.verdict] || "tied", onclick: () => go(`#/benchmark/${line.b}?model=${b}`) }));
  return replace(
    target,
    h("p", { class: "verdict-line" }, "B (", data(MODELS[b].label), ") is ", h("b", { class: "good-text" }, `better on ${better}`), ", ", h("b", { class: "bad-text" }, `worse on ${worse}`), ` and not separable on ${lines.length - better - worse} of ${lines.length}.`),
    dotPlot(`Difference of B and A by benchmark, in points of a per cent`, rows, { zero: true }),
    h("div", { class: "toolbar" }, copyMenu(() => pairGrid(lines, a, b, title))),
    h(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": "Differences" },
      h(
        "table",
        { class: "plain-table numbers" },
        h("thead", {}, h("tr", {}, ["Benchmark", "A", "B", "B − A", "95 % interval", "p (Holm)", "only A / B right", "detectable", "n", "Verdict"].map((text) => h("th", { scope: "col" }, text)))),
        h(
          "tbody",
          {},
          lines.map((line) =>
            h(
              "tr",
              {},
              h("th", { scope: "row" }, h("a", { href: `#/benchmark/${line.b}?model=${b}` }, data(title(line)))),
              h("td", {}, number(line.first)),
              h("td", {}, number(line.second)),
              h("td", {}, h("b", {}, signed(line.difference))),
              h("td", {}, `${signed(line.low)} to ${signed(line.high)}`),
              h("td", { title: line.test }, pText(line.p)),
              h("td", {}, line.onlyFirst === null ? "–" : `${line.onlyFirst} / ${line.onlySecond}`),
              h("td", {}, line.detectable === null ? "–" : number(line.detectable)),
              h("td", {}, line.units === line.n ? line.n : `${line.n} in ${line.units}`),
              h("td", { class: { better: "good-text", worse: "bad-text" }[line.verdict] || "" }, { better: "B better", worse: "A better" }[line.verdict] || line.verdict),
            ),
          ),
        ),
      ),
    ),
    h("p", { class: "note" }, "Intervals and p: one paired score test (McNemar's statistic where each sample is right or wrong), an image being one unit; p corrected by Holm over the benchmarks of this pair. Detectable: the smallest true difference that so many samples find in 4 of 5 cases."),
  );
}

function pairGrid(lines, a, b, title) {
  return {
    header: ["benchmark", MODELS[a].label, MODELS[b].label, "difference", "low", "high", "p (Holm)"],
    rows: lines.map((line) => [title(line), number(line.first, 2), number(line.second, 2), number(line.difference, 2), number(line.low, 2), number(line.high, 2), pText(line.p)]),
    best: new Set(),
    note: "Paired on the same samples; 95 % intervals in points of a per cent.",
  };
}

function rankingSection() {
  const ranking = DATA.ranking;
  if (!ranking) return null;
  const order = ranking.models.map((_, i) => i).sort((x, y) => ranking.means[y] - ranking.means[x]);
  const models = ranking.models.length;
  return h(
    "section",
    {},
    h("h2", {}, "Ranks over the suite"),
    h("p", {}, `Over ${count(ranking.benchmarks.length, "benchmark")} on which all ${models} models could be paired. A bar spans the ranks a model may have; all bars hold together with 95 % confidence.`),
    chart("Rank intervals", (width) => {
      const left = Math.min(width * 0.42, 14 + 7 * Math.max(...order.map((i) => MODELS[ranking.models[i]].label.length)));
      const step = 26;
      const height = order.length * step + 34;
      const x = linear([1, models], [left + 20, width - 60]);
      return canvasOf(
        width,
        height,
        gridX(x, ticks(1, models, Math.min(models - 1, width / 60)).filter(Number.isInteger), 4, height - 24, String),
        order.map((i, place) => {
          const y = 4 + step * (place + 0.5);
          const [low, high] = ranking.ranks[i];
          const label = MODELS[ranking.models[i]].label;
          return svg("g", { class: "row rank" }, svg("title", {}, `${label}: rank ${low === high ? low : `${low} to ${high}`}`), svg("text", { class: "name", x: left, y: y + 4, "text-anchor": "end" }, shorten(label, Math.floor(left / 6.6))), svg("line", { class: "band", x1: x(low), x2: x(high) + 0.01, y1: y, y2: y }), svg("text", { class: "value", x: width - 2, y: y + 4, "text-anchor": "end" }, number(ranking.means[i])));
        }),
      );
    }),
  );
}
