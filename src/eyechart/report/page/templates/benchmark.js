// One benchmark: all models, then one model's classes, confusions, curves, prompts, calibration and samples.

function benchmarkView(main, b, params, chunk) {
  const benchmark = BENCHMARKS[b];
  const models = modelsOf(b);
  const ranked = [...models].sort(byColumn({ b, i: benchmark.primary[0] ?? 0 }));
  const withSamples = chunk.samples ? ranked.filter((m) => chunk.samples.models.includes(m)) : [];
  const asked = params.has("model") ? Number(params.get("model")) : -1;
  const view = { b, chunk, metric: benchmark.primary[0] ?? 0, m: withSamples.includes(asked) ? asked : withSamples[0] ?? ranked[0], list: null };
  const ranking = h("div", {});
  const detail = h("div", {});
  const facts = [
    benchmark.task,
    t("language {code}", { code: benchmark.language }),
    benchmark.split && t("split {name}", { name: benchmark.split }),
    benchmark.n > 0 && count(benchmark.n, "sample"),
    benchmark.spellings.length > 0 && t("called {names} in the results", { names: benchmark.spellings.join(", ") }),
  ].filter(Boolean);
  replace(
    main,
    h("p", { class: "crumb" }, h("a", { href: "#/" }, t("Overview"))),
    h("h1", {}, data(benchmark.label)),
    h("p", { class: "lead" }, facts.map((fact, k) => [k > 0 && " · ", data(fact)])),
    ranking,
    detail,
  );
  const draw = () => {
    drawBenchmarkRanking(ranking, view, draw);
    drawBenchmarkDetail(detail, view, draw);
  };
  draw();
  view.list?.openNamed(params);
}

function drawBenchmarkRanking(target, view, redraw) {
  const { b } = view;
  const benchmark = BENCHMARKS[b];
  const column = { b, i: view.metric };
  const chance = benchmark.chance[view.metric];
  const reachable = benchmark.reachable[view.metric];
  const percent = columnPercent(column);
  const rows = modelsOf(b)
    .filter((m) => valueAt(m, column) !== null)
    .sort(byColumn(column))
    .map((m) => ({
      label: MODELS[m].label + (resultOf(m, b).fewer.length ? " *" : ""),
      value: valueAt(m, column),
      low: resultOf(m, b).low[view.metric],
      high: resultOf(m, b).high[view.metric],
      mark: `${m === view.m ? "chosen " : ""}${atChance(m, column) ? "at-chance" : markOf(m, column)}`,
      onclick: () => openResult(m, b),
    }));
  replace(
    target,
    h(
      "div",
      { class: "toolbar" },
      select(t("Metric"), benchmark.metrics.map((name, i) => [i, name]), view.metric, (value) => {
        view.metric = Number(value);
        redraw();
      }),
      copyMenu(() => rankingGrid(b)),
    ),
    dotPlot(t("{benchmark}, {metric} by model", { benchmark: benchmark.label, metric: benchmark.metrics[view.metric] }), rows, {
      percent,
      reference: chance,
      referenceLabel: t("chance"),
    }),
    h("p", { class: "note" }, [
      t("Lines are 95 % intervals."),
      lowerIsBetter(column) && t("Lower is better."),
      chance !== null && t("Chance is {value}.", { value: number(chance, 2, percent) }),
      reachable !== null && t("The best that any model can reach is {value}.", { value: number(reachable, 2, percent) }),
      modelsOf(b).some((m) => atChance(m, column)) && t("Grey: not above chance."),
      t("A row opens that model's result."),
    ].filter(Boolean).join(" ")),
    lostNotes(modelsOf(b).map((m) => ({ m, b }))),
  );
}

// Every metric of every model, for copying.
function rankingGrid(b) {
  const benchmark = BENCHMARKS[b];
  const columns = benchmark.metrics.map((_, i) => ({ b, i }));
  const models = modelsOf(b);
  const best = new Set();
  const texts = columns.map((column, c) => {
    const values = models.map((m) => valueAt(m, column));
    for (const r of bestOf(values, lowerIsBetter(column))) best.add(`${r}/${c + 1}`);
    return values.map((value) => number(value, 1, columnPercent(column)));
  });
  return { header: ["model", ...benchmark.metrics], rows: models.map((m, r) => [MODELS[m].label, ...texts.map((column) => column[r])]), best, note: `${benchmark.label}, ${benchmark.task}` };
}

function drawBenchmarkDetail(target, view, redraw) {
  const { b, chunk } = view;
  const options = modelsOf(b).map((m) => [m, MODELS[m].label]);
  const choose = select(t("Model"), options, view.m, (value) => {
    view.m = Number(value);
    view.list = null;
    redraw();
    document.getElementById("model-detail")?.querySelector("select")?.focus();
  });
  const described = chunk.results[view.m];
  replace(
    target,
    h("div", { class: "toolbar sticky", id: "model-detail" }, choose, button(t("Result, settings and command"), () => openResult(view.m, b))),
    incidents(described),
    blindSection(view, redraw),
    judgesSection(described),
    h("div", { class: "pair" }, curvesSection(view), classesSection(view)),
    thresholdSection(view),
    compressionSection(view),
    confusionSection(view),
    h("div", { class: "pair" }, promptsSection(view), calibrationSection(view)),
    samplesSection(view),
  );
}

function incidents(described) {
  const lines = [
    ...described.notices.map((notice) => h("li", {}, data(told(notice.message)))),
    ...described.failures.map((failure) => h("li", {}, t("Not used: "), data(failure.id), " – ", data(told(failure.reason)))),
    described.failed > described.failures.length && h("li", {}, t("and {n} more", { n: described.failed - described.failures.length })),
  ].filter(Boolean);
  return lines.length > 0 && h("details", { class: "notices", open: lines.length < 6 }, h("summary", {}, t("Warnings and failures")), h("ul", {}, lines));
}

// Blind control: what a model gets right without the images, compared with what it gets right with them.

function blindSection(view, redraw) {
  const control = (view.chunk.blind || []).find((one) => one.seeing === view.m || one.blind === view.m);
  if (!control) return null;
  const swapped = control.how === "swapped";
  const how = swapped ? t("with the image of another question") : t("without the image");
  const rows = [{ name: t("all questions"), ...control }, ...control.categories];
  const [both, seeing, blind, neither] = control.right;
  const showBlind = () => {
    view.m = control.blind;
    view.list = null;
    redraw();
    view.list.state.show = "right";
    view.list.draw();
    view.list.section.querySelector("h2").focus();
  };
  return h(
    "section",
    { class: "blind" },
    h("h2", {}, t("Needs the image")),
    h("p", { class: "note" }, t("The same questions, asked {how}. What the images add is the difference on the same questions, with its 95 % interval.", { how })),
    plainTable(t("Blind control"), ["", t("with images"), swapped ? t("other images") : t("blind"), t("images add"), t("95 % interval"), t("questions")], rows.map(blindRow)),
    h(
      "p",
      {},
      t("{answered} of {n} questions are answered {how}{guessing}; {seeing} only with it, {neither} not at all, {blind} only {how}. ", {
        answered: both + blind,
        n: control.n,
        how,
        guessing: control.chance === null ? "" : t(" (guessing: {chance})", { chance: number(control.chance) }),
        seeing,
        neither,
        blind,
      }),
      view.chunk.samples && view.chunk.samples.models.includes(control.blind) && button(t("Show the questions answered {how}", { how }), showBlind),
    ),
  );
}

function blindRow(row) {
  const needed = row.low !== null && row.low > 0;
  const gain = needed ? h("strong", {}, signed(row.gain)) : signed(row.gain);
  return tableRow(data(row.name), [number(row.seeing_value), number(row.blind_value), gain, range(row.low, row.high) || "–", row.n]);
}

// The judge audit: each judge's own number, and how far judges agree with themselves, each other and people.

function judgesSection(described) {
  const { audit } = described;
  if (!audit) return null;
  return h(
    "section",
    { class: "judges" },
    h("h2", {}, t("Judges")),
    h("p", { class: "note" }, tNodes("{count} judged, in words of {source}. Agreement of 1 is full, 0 is what chance gives; 95 % intervals in brackets.", { count: count(audit.judged, "answer"), source: data(audit.prompt) })),
    plainTable(t("Judges"), audit.header.map((text) => t(text)), audit.rows.map(([name, ...cells]) => tableRow(data(name), cells.map((text) => text || "–")))),
    audit.together.length > 0 && [h("h3", {}, t("Agreement of judges")), h("ul", {}, audit.together.map((line) => h("li", {}, data(told(line)))))],
  );
}
