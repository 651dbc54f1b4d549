// The first view: what was measured, the matrix, a scatter, languages side by side.

function overview(main) {
  const results = DATA.results.length;
  if (!results) {
    replace(main, h("h1", {}, data(pageTitle())), h("p", { class: "empty" }, t("No results yet.")));
    return;
  }
  replace(
    main,
    h("h1", {}, data(pageTitle())),
    h("p", { class: "lead" }, t("{models}, {benchmarks}, {results}.", { models: count(MODELS.length, "model"), benchmarks: count(BENCHMARKS.length, "benchmark"), results: count(results, "result") })),
    notices(),
    h(
      "section",
      { "aria-labelledby": "matrix-title" },
      h("h2", { id: "matrix-title", class: "offscreen" }, t("Results")),
      // On a phone the table comes first: what chooses its rows and columns is folded away.
      h("details", { class: "controls", open: !matchMedia("(max-width: 640px)").matches }, h("summary", {}, t("Filter, columns, copy")), toolbar()),
      h("div", { id: "matrix" }),
    ),
    ...DATA.collections.map(collection),
    mistakesSection(),
    h("section", { id: "scatter" }),
    languages(),
  );
  drawOverview();
}

// A published collection: the mean of each model, and the means by task type.
function collection({ name, notes, values, groups }) {
  const models = MODELS.map((_, m) => m).filter((m) => values[m] !== null);
  const rows = models.map((m) => h("tr", {}, h("th", { scope: "row" }, data(MODELS[m].label)), [values, ...groups.map(([, row]) => row)].map((row) => h("td", {}, number(row[m])))));
  return h(
    "section",
    {},
    h("h2", {}, data(name)),
    models.length > 0 && plainTable(name, [t("Model"), t("Mean"), ...groups.map(([kind]) => data(kind))], rows),
    h("p", {}, data(notes.map(told).join(" "))),
  );
}

function notices() {
  const fewer = DATA.results.filter((row) => row[6].length).length;
  const warnings = DATA.results.reduce((sum, row) => sum + row[5], 0);
  const other = DATA.results.filter((row) => row[7].length).length;
  const heads = [fewer > 0 && t("{results} with lost samples", { results: count(fewer, "result") }), warnings > 0 && count(warnings, "warning"), other > 0 && t("{results} not comparable", { results: count(other, "result") }), DATA.notices.length > 0 && t("{notes} on files", { notes: count(DATA.notices.length, "note") })].filter(Boolean);
  const lines = [
    fewer > 0 && h("li", {}, tNodes("{results} marked *: with lost samples, as some failed or were left out; {link}", { results: count(fewer, "result"), link: h("a", { href: "#/results?only=fewer" }, t("see which")) })),
    warnings > 0 && h("li", {}, tNodes("{warnings}; {link}", { warnings: count(warnings, "warning"), link: h("a", { href: "#/results?only=warnings" }, t("read them")) })),
    other > 0 && h("li", {}, t("{results} marked ≠: other data, prompts or task versions than the best of the column. Do not compare them with it.", { results: count(other, "result") })),
    ...DATA.notices.map((text) => h("li", {}, data(told(text)))),
  ].filter(Boolean);
  return lines.length > 0 && h("details", { class: "notices" }, h("summary", {}, heads.join(" · ")), h("ul", {}, lines));
}

function toolbar() {
  const metric = select(t("Metric"), [["", t("primary metrics")], ...METRICS.map((name) => [name, name])], STATE.metric, (value) => change({ metric: value }));
  const average = select(t("Average"), DATA.averages.map((part) => [part.key, t(part.heading)]), STATE.average, (value) => change({ average: value, sort: { key: "average", best: true } }));
  return h(
    "div",
    { class: "toolbar" },
    search(t("Filter models"), STATE.query, (query) => change({ query })),
    metric,
    average,
    picker(t("Models"), MODELS.map((model) => [model.label, model.label]), "hiddenModels"),
    picker(t("Benchmarks"), BENCHMARKS.map((part) => [part.label + part.task, `${part.label} · ${told(part.kind)}`]), "hiddenBenchmarks"),
    h("div", { class: "checks" }, checkbox(t("Intervals"), STATE.intervals, (intervals) => change({ intervals })), checkbox(t("Shading"), STATE.shade, (shade) => change({ shade }))),
    copyMenu(matrixGrid),
  );
}

// A drop-down with a check box for each row or column.
function picker(title, options, key) {
  const summary = h("summary", {}, title);
  const list = h("div", { class: "picker-list", role: "group", "aria-label": title });
  const boxes = options.map(([name, text]) =>
    checkbox(text, !STATE[key].includes(name), (on) => {
      change({ [key]: on ? STATE[key].filter((other) => other !== name) : [...STATE[key], name] });
      label();
    }),
  );
  const all = (on) => {
    for (const box of boxes) box.querySelector("input").checked = on;
    change({ [key]: on ? [] : options.map(([name]) => name) });
    label();
  };
  const label = () => replace(summary, title, " ", h("span", { class: "hint" }, `${options.length - STATE[key].length}/${options.length}`));
  label();
  fill(list, [h("div", { class: "picker-all" }, button(t("All"), () => all(true), { class: "quiet" }), button(t("None"), () => all(false), { class: "quiet" })), boxes]);
  return h("details", { class: "picker" }, summary, list);
}

function change(values) {
  Object.assign(STATE, values);
  saveState();
  drawOverview();
}

function drawOverview({ focus = "" } = {}) {
  const target = document.getElementById("matrix");
  if (!target) return;
  const scrolled = target.firstElementChild ? target.firstElementChild.scrollLeft : 0;
  const models = shownModels();
  const columns = shownColumns();
  const average = averageOf(models, columns, STATE.average);
  average.byModel = new Map(models.map((m, j) => [m, average.values[j]]));
  const sorted = sortedModels(models, columns, average);
  const empty = !models.length ? t("No model matches the filter.") : !columns.length ? t("No benchmark is chosen.") : "";
  replace(
    target,
    empty ? h("p", { class: "empty" }, empty) : scrollable(t("Models by benchmarks"), matrixTable(sorted, columns, average)),
    h("p", { class: "note" }, averageNote(STATE.average, average, t)),
    legend(columns),
  );
  if (!empty) target.firstElementChild.scrollLeft = scrolled;
  if (focus) target.querySelector(`[data-sort="${focus}"]`)?.focus();
  drawScatter(models, columns, average);
}

function legend(columns) {
  const ways = new Set(columns.map((column) => (BENCHMARKS[column.b].marks[column.i] || {}).how));
  return h(
    "ul",
    { class: "legend" },
    h("li", {}, h("span", { class: "mark" }, "●"), " ", t("best of the column")),
    ways.has("paired") && h("li", {}, h("span", { class: "mark" }, "○"), " ", t("not separable from the best (paired test on the same samples, 95 %, Holm over the column)")),
    ways.has("overlap") && h("li", {}, h("span", { class: "mark" }, "○"), " ", t("without samples to pair: the interval overlaps that of the best")),
    h("li", {}, t("± or − +: how far the 95 % interval reaches")),
    columns.some(lowerIsBetter) && h("li", {}, t("↓ lower is better")),
    columns.some((column) => modelsOf(column.b).some((m) => resultOf(m, column.b).fewer.length)) && h("li", {}, h("span", { class: "mark" }, "*"), " ", t("with lost samples")),
    h("li", {}, t("A cell opens its metrics, settings and the command to reproduce it.")),
  );
}

// ------------------------------------------------------------------------------------------------ scatter

const AXES = [
  ["parameters", word("parameters"), true],
  ["image_size", word("image size in pixels"), false],
  ["throughput", word("images per second"), true],
];

function drawScatter(models, columns, average) {
  const target = document.getElementById("scatter");
  const usable = AXES.filter(([key]) => new Set(MODELS.map((model) => model[key]).filter(Boolean)).size > 1);
  if (!usable.length) return;
  const [key, xWord, log] = usable.find(([name]) => name === STATE.scatterX) || usable[0];
  const xLabel = t(xWord);
  const column = columns.find((part) => columnKey(part) === STATE.scatterY);
  const percent = column ? columnPercent(column) : STATE.average !== "rank";
  const yLabel = column ? columnTitle(column) : t(averageKind(STATE.average).heading);
  const points = models
    .filter((m) => MODELS[m][key])
    .map((m) => {
      const result = column && resultOf(m, column.b);
      const y = column ? valueAt(m, column) : average.byModel.get(m);
      return { label: MODELS[m].label, x: MODELS[m][key], y, low: result ? result.low[column.i] : null, high: result ? result.high[column.i] : null, onclick: () => go(`#/results?model=${m}`) };
    })
    .filter((point) => point.y !== null && point.y !== undefined);
  replace(
    target,
    h("h2", {}, t("Quality against cost")),
    h(
      "div",
      { class: "toolbar" },
      select(t("Across"), usable.map(([name, text]) => [name, t(text)]), key, (value) => change({ scatterX: value })),
      select(t("Up"), [["average", t("average")], ...columns.map((part) => [columnKey(part), columnTitle(part)])], STATE.scatterY, (value) => change({ scatterY: value })),
    ),
    points.length ? scatter(t("{y} against {x}", { y: yLabel, x: xLabel }), points, { xLabel, yLabel, percent, log }) : h("p", { class: "empty" }, t("No shown model has both.")),
  );
}

// ---------------------------------------------------------------------------------------------- languages

function languages() {
  const groups = new Map();
  BENCHMARKS.forEach((benchmark, b) => {
    const key = `${benchmark.dataset}\n${benchmark.task}`;
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(b);
  });
  const several = [...groups.values()].filter((group) => group.length > 1);
  return several.length > 0 && h("section", {}, h("h2", {}, t("Languages")), several.map(languageTable));
}

function languageTable(group) {
  const first = BENCHMARKS[group[0]];
  const metric = first.metrics[first.primary[0]];
  const columns = group.map((b) => ({ b, i: BENCHMARKS[b].metrics.indexOf(metric) })).filter((column) => column.i >= 0);
  const models = MODELS.map((_, m) => m).filter((m) => columns.some((column) => valueAt(m, column) !== null));
  models.sort(byColumn(columns[0]));
  return [
    h("h3", {}, data(first.dataset), h("span", { class: "hint" }, ` ${first.short[first.primary[0]]}`)),
    scrollable(
      t("{dataset} by language", { dataset: first.dataset }),
      h(
        "table",
        { class: "matrix languages" },
        h("thead", {}, h("tr", {}, h("th", { scope: "col", class: "model" }, t("Model")), columns.map((column) => h("th", { scope: "col" }, h("a", { class: "dataset", href: `#/benchmark/${column.b}` }, BENCHMARKS[column.b].language))), columns.length > 1 && h("th", { scope: "col" }, t("lowest to highest")))),
        h("tbody", {}, models.map((m) => h("tr", {}, h("th", { scope: "row", class: "model" }, data(MODELS[m].name), h("small", {}, data(MODELS[m].pretrained || " "))), columns.map((column) => matrixCell(m, column)), h("td", { class: "spread" }, spread(m, columns))))),
      ),
    ),
  ];
}

// One line from the weakest language to the strongest, on a scale shared by the table.
function spread(m, columns) {
  const values = columns.map((column) => valueAt(m, column)).filter((value) => value !== null);
  const every = columns.flatMap((column) => modelsOf(column.b).map((other) => valueAt(other, column))).filter((value) => value !== null);
  const x = linear([Math.max(0, Math.min(...every) - 0.05), Math.min(1, Math.max(...every) + 0.05)], [6, 154]);
  return svg(
    "svg",
    { width: 160, height: 18, "aria-hidden": "true" },
    svg("line", { class: "whisker", x1: x(Math.min(...values)), x2: x(Math.max(...values)), y1: 9, y2: 9 }),
    values.map((value) => svg("circle", { class: "dot", cx: x(value), cy: 9, r: 3.5 })),
  );
}

// The most confident mistakes of each benchmark as images, under the first table: what the numbers look like.

const STRIPS = 4; // benchmarks that are shown at once; the others unfold
const STRIP_IMAGES = 12;

function mistakesSection() {
  const shown = BENCHMARKS.map((benchmark, b) => ({ benchmark, b })).filter(({ benchmark }) => benchmark.images > 0);
  if (!shown.length) return null;
  return h(
    "section",
    { class: "mistakes", "aria-labelledby": "mistakes-title" },
    h("h2", { id: "mistakes-title" }, t("Most confident mistakes")),
    shown.slice(0, STRIPS).map(({ b }) => mistakeStrip(b)),
    shown.length > STRIPS && h("details", { class: "more" }, h("summary", {}, t("{n} more benchmarks", { n: shown.length - STRIPS })), shown.slice(STRIPS).map(({ b }) => mistakeStrip(b))),
  );
}

// A benchmark's samples are unpacked when its strip comes near the screen.
function mistakeStrip(b) {
  const node = h("div", { class: "mistake-strip", "data-benchmark": b });
  const near = new IntersectionObserver(async ([entry]) => {
    if (!entry.isIntersecting) return;
    near.disconnect();
    const turn = turns;
    const chunk = await chunkOf(b);
    if (turn === turns) replace(node, drawStrip(b, chunk));
  }, { rootMargin: "400px" });
  near.observe(node);
  return node;
}

function drawStrip(b, chunk) {
  const benchmark = BENCHMARKS[b];
  const access = sampleAccess(chunk);
  const models = [...chunk.samples.models].sort(byColumn({ b, i: benchmark.primary[0] ?? 0 }));
  const withImages = (m) => filterSamples({ chunk, m }, access, { show: "wrong", query: "", other: "", cell: null, direction: "" }).filter((i) => pictured(chunk, i) >= 0);
  const m = models.find((model) => withImages(model).length) ?? models[0];
  const samples = withImages(m).slice(0, STRIP_IMAGES);
  if (!samples.length) return null;
  return [
    h("h3", {}, h("a", { href: `#/benchmark/${b}?model=${m}` }, data(benchmark.label)), h("span", { class: "hint" }, " ", data(MODELS[m].label))),
    h("ul", { class: "strip-list" }, samples.map((i) => h("li", {}, h("a", { href: `#/benchmark/${b}?model=${m}&sample=${i}` }, image(chunk, pictured(chunk, i), 88), h("span", { class: "strip-text" }, MISTAKES[chunk.form](chunk, access, m, i)))))),
  ];
}

// The image that stands for a sample: its own, or that of a text.
function pictured(chunk, i) {
  const { thumbnails, from_text: fromText, images } = chunk.samples;
  const place = fromText && fromText[i] === 1 ? (images[i] ?? -1) : i;
  return thumbnails[place] ? place : -1;
}

const MISTAKES = {
  label: (chunk, access, m, i) => [h("b", {}, data(className(chunk, chunk.samples.label[i]))), h("span", { class: "bad-text" }, "→ ", data(className(chunk, access.prediction(m, i))))],
  labels: (chunk, access, m, i) => [h("b", {}, classNames(chunk, chunk.samples.labels[i])), h("span", { class: "bad-text" }, "→ ", data(className(chunk, (access.detail(m, i)?.top ?? [])[0])))],
  ranking: (chunk, access, m, i) => [h("b", {}, chunk.samples.from_text[i] === 1 ? h("q", {}, data(shorten(chunk.samples.texts[i] ?? chunk.samples.ids[i], 60))) : data(shorten(rightTexts(chunk, i)[0] ?? chunk.samples.ids[i], 60))), h("span", { class: "bad-text" }, rankText(access, m, i))],
  question: (chunk, access, m, i) => [h("b", {}, data(shorten(String(chunk.samples.questions[i]?.question ?? chunk.samples.ids[i]), 60))), h("span", { class: "bad-text" }, "→ ", data(shorten(String(access.detail(m, i)?.extracted ?? t("nothing")), 40)))],
};
