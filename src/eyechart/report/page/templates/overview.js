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
    h("div", { id: "verdict" }),
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
    h("div", { class: "pair" }, h("section", { id: "scatter" }), languages()),
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
  const warnings = warningGroups();
  const other = DATA.results.filter((row) => row[7].length).length;
  const heads = [fewer > 0 && t("{results} with lost samples", { results: count(fewer, "result") }), warnings.length > 0 && count(warnings.length, "warning"), other > 0 && t("{results} not comparable", { results: count(other, "result") }), DATA.notices.length > 0 && t("{notes} on files", { notes: count(DATA.notices.length, "note") })].filter(Boolean);
  const lines = [
    fewer > 0 && h("li", {}, tNodes("{results} marked *: with lost samples, as some failed or were left out; {link}", { results: count(fewer, "result"), link: h("a", { href: "#/results?only=fewer" }, t("see which")) })),
    ...warnings.map(({ texts, results }) => h("li", {}, data(texts.slice(0, EXAMPLES).map(told).join(" ")), " ", h("a", { href: "#/results?only=warnings" }, texts.length > EXAMPLES ? t("{results}, {n} more texts", { results: count(results, "result"), n: texts.length - EXAMPLES }) : count(results, "result")))),
    other > 0 && h("li", {}, t("{results} marked ≠: other data, prompts or task versions than the best of the column. Do not compare them with it.", { results: count(other, "result") })),
    ...DATA.notices.map((text) => h("li", {}, data(told(text)))),
  ].filter(Boolean);
  return lines.length > 0 && h("details", { class: "notices" }, h("summary", {}, heads.join(" · ")), h("ul", {}, lines));
}

const EXAMPLES = 3; // texts shown of one cause

// Warnings by cause: the texts, and how many results have them.
function warningGroups() {
  const groups = new Map();
  for (const row of DATA.results) {
    for (const kind of new Set(row[5].map((place) => DATA.warnings[place][0]))) {
      if (!groups.has(kind)) groups.set(kind, { texts: DATA.warnings.filter((one) => one[0] === kind).map((one) => one[1]), results: 0 });
      groups.get(kind).results += 1;
    }
  }
  return [...groups.values()].sort((a, b) => b.results - a.results);
}

// The answer in words. It is about everything: where only a part is shown, it says so.
function verdictLines() {
  const { sentences } = DATA.verdict;
  const part = STATE.query || STATE.metric || STATE.hiddenBenchmarks.length || String(STATE.hiddenModels) !== String(hiddenAtFirst());
  const [first, ...rest] = sentences.map((text) => data(text[STATE.language]));
  return [
    part && first && h("p", { class: "hint" }, t("Over all models and benchmarks, by primary metrics:")),
    first && h("p", { class: "verdict-line" }, first),
    rest.map((text) => h("p", {}, text)),
  ];
}

function toolbar() {
  const metric = select(t("Metric"), [["", t("primary metrics")], ...METRICS.map((name) => [name, name])], STATE.metric, (value) => change({ metric: value }));
  const average = select(t("Average"), DATA.averages.map((part) => [part.key, t(part.heading)]), STATE.average, (value) => change({ average: value, sort: { key: value === "plain" ? "rank" : "average", best: true } }));
  return h(
    "div",
    { class: "toolbar" },
    search(t("Filter models"), STATE.query, (query) => change({ query })),
    metric,
    average,
    picker(t("Models"), MODELS.map((model) => [model.label, model.label]), "hiddenModels"),
    picker(t("Benchmarks"), BENCHMARKS.map((part) => [part.label + part.task, `${part.label} · ${told(part.kind)}`]), "hiddenBenchmarks"),
    h("div", { class: "checks" }, checkbox(t("Intervals"), STATE.intervals, (intervals) => change({ intervals })), checkbox(t("Shading"), STATE.shade, (shade) => change({ shade })), COSTS.some(([key]) => MODELS.some((model) => model[key])) && checkbox(t("Cost"), STATE.costs, (costs) => change({ costs }))),
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
  replace(document.getElementById("verdict"), verdictLines());
  const empty = !models.length ? t("No model matches the filter.") : !columns.length ? t("No benchmark is chosen.") : "";
  replace(
    target,
    empty ? h("p", { class: "empty" }, empty) : scrollable(t("Models by benchmarks"), matrixTable(sorted, columns, average)),
    h("p", { class: "note" }, averageNote(STATE.average, average, t)),
    legend(models, columns),
    lostNotes(models.flatMap((m) => [...new Set(columns.map(({ b }) => b))].map((b) => ({ m, b })))),
  );
  if (!empty) target.firstElementChild.scrollLeft = scrolled;
  if (focus) target.querySelector(`[data-sort="${focus}"]`)?.focus();
  drawScatter(models, columns, average);
}

function legend(models, columns) {
  const ways = new Set(columns.map((column) => BENCHMARKS[column.b].marks[column.i].how));
  return h(
    "ul",
    { class: "legend" },
    columns.some((column) => models.some((m) => markOf(m, column) === "best")) && h("li", {}, h("span", { class: "mark" }, "●"), " ", t("best of the column")),
    ways.has("paired") && h("li", {}, h("span", { class: "mark" }, "○"), " ", t("not separable from the best (paired test on the same samples, 95 %, corrected for the number of tests)")),
    ways.has("overlap") && h("li", {}, h("span", { class: "mark" }, "○"), " ", t("without samples to pair: the interval overlaps that of the best")),
    h("li", {}, t("± or − +: how far the 95 % interval reaches")),
    columns.some(lowerIsBetter) && h("li", {}, t("↓ lower is better")),
    columns.some((column) => models.some((m) => atChance(m, column))) && h("li", {}, h("span", { class: "swatch at-chance" }), " ", t("not above chance")),
    STATE.shade && h("li", {}, h("span", { class: "swatch tone" }), " ", t("shading from chance to the best")),
    models.some(isRanked) && h("li", {}, t("Rank: all ranks that the samples allow (simultaneous 95 % intervals); models that share ranks are sorted by name")),
    h("li", {}, t("A cell opens its metrics, settings and the command to reproduce it.")),
  );
}

// ------------------------------------------------------------------------------------------------ scatter

const AXES = [
  ["parameters", word("parameters"), true, 1],
  ["throughput", word("throughput"), true, 1],
  ["memory", word("peak memory in MB"), true, 1e6],
  ["image_size", word("image size in pixels"), false, 1],
];

function drawScatter(models, columns, average) {
  const target = document.getElementById("scatter");
  const usable = AXES.filter(([key]) => new Set(MODELS.map((model) => model[key]).filter(Boolean)).size > 1);
  if (!usable.length) return;
  const [key, xWord, log, scale] = usable.find(([name]) => name === STATE.scatterX) || usable[0];
  const unit = key === "throughput" ? told(unitOf(models)) : "";
  const xLabel = unit ? `${t(xWord)} (${unit})` : t(xWord);
  const column = columns.find((part) => columnKey(part) === STATE.scatterY);
  const percent = column ? columnPercent(column) : STATE.average !== "rank";
  const yLabel = column ? columnTitle(column) : t(averageKind(STATE.average).heading);
  const points = models
    .filter((m) => MODELS[m][key])
    .map((m) => {
      const y = column ? valueAt(m, column) : average.byModel.get(m);
      const { low, high } = (column ? endsOf(m, column) : averageEnds(m, y)) ?? { low: null, high: null };
      return { label: MODELS[m].label, x: MODELS[m][key] / scale, y, low, high, mark: column && atChance(m, column) ? "at-chance" : "", onclick: () => go(`#/results?model=${m}`) };
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
    points.length ? scatter(t("{y} against {x}", { y: yLabel, x: xLabel }), points, { xLabel, yLabel, percent, log, reference: column ? BENCHMARKS[column.b].chance[column.i] : chanceOf(columns, average), referenceLabel: t("chance") }) : h("p", { class: "empty" }, t("No shown model has both.")),
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

// Mistakes of each benchmark as images, under the first table: what the numbers look like.

const STRIPS = 4; // benchmarks that are shown at once; the others unfold
const STRIP_IMAGES = 12;

function mistakesSection() {
  const shown = BENCHMARKS.map((benchmark, b) => ({ benchmark, b })).filter(({ benchmark }) => benchmark.images > 0);
  if (!shown.length) return null;
  // Of one dataset in several languages, the first shows its mistakes and the others what they get wrong in addition.
  const first = (b) => shown.find(({ benchmark }) => benchmark.dataset === BENCHMARKS[b].dataset && benchmark.task === BENCHMARKS[b].task).b;
  const strips = shown.map(({ b }) => mistakeStrip(b, first(b)));
  return h(
    "section",
    { class: "mistakes", "aria-labelledby": "mistakes-title" },
    h("h2", { id: "mistakes-title" }, t("Mistakes")),
    strips.slice(0, STRIPS),
    strips.length > STRIPS && h("details", { class: "more" }, h("summary", {}, t("{n} more benchmarks", { n: strips.length - STRIPS })), strips.slice(STRIPS)),
  );
}

// A benchmark's samples are unpacked when its strip comes near the screen.
function mistakeStrip(b, first) {
  const node = h("div", { class: "mistake-strip", "data-benchmark": b });
  const near = new IntersectionObserver(async ([entry]) => {
    if (!entry.isIntersecting) return;
    near.disconnect();
    const turn = turns;
    const chunks = await Promise.all([chunkOf(b), first === b ? null : chunkOf(first)]);
    if (turn === turns) replace(node, drawStrip(b, first, ...chunks));
  }, { rootMargin: "400px" });
  near.observe(node);
  return node;
}

function mistakesOf(chunk, m) {
  return filterSamples({ chunk, m }, sampleAccess(chunk), { show: "wrong", query: "", other: "", cell: null, direction: "" });
}

function drawStrip(b, first, chunk, firstChunk) {
  const benchmark = BENCHMARKS[b];
  const access = sampleAccess(chunk);
  const models = [...chunk.samples.models].sort(byColumn({ b, i: benchmark.primary[0] ?? 0 }));
  const withImages = (m) => mistakesOf(chunk, m).filter((i) => pictured(chunk, i) >= 0);
  const m = models.find((model) => withImages(model).length) ?? models[0];
  const known = new Set(firstChunk?.samples.models.includes(m) ? mistakesOf(firstChunk, m).map((i) => firstChunk.samples.ids[i]) : []);
  const found = withImages(m);
  const samples = inTurns(found.filter((i) => !known.has(chunk.samples.ids[i])), (i) => CONFUSED[chunk.form](chunk, access, m, i), STRIP_IMAGES);
  if (!found.length) return null;
  const confident = samples.some((i) => chunk.form === "label" && access.detail(m, i)?.scores);
  const how = [
    samples.length > 0 && t(confident ? word("the most confident of each confusion first") : chunk.form === "ranking" ? word("the worst ranks, by kind of query in turn") : word("one of each confusion in turn")),
    known.size > 0 && t(samples.length ? word("without those of {benchmark}") : word("the same mistakes as {benchmark}"), { benchmark: benchmarkTitle(first) }),
  ].filter(Boolean);
  return [
    h("h3", {}, h("a", { href: `#/benchmark/${b}?model=${m}` }, data(benchmarkTitle(b))), " ", h("span", { class: "hint" }, data(MODELS[m].label)), " ", h("span", { class: "how" }, data(how.join(t(", "))))),
    h("ul", { class: "strip-list" }, samples.map((i) => h("li", {}, h("a", { href: `#/benchmark/${b}?model=${m}&sample=${i}` }, image(chunk, pictured(chunk, i), 88), h("span", { class: "strip-text" }, MISTAKES[chunk.form](chunk, access, m, i)))))),
  ];
}

// Take one of each group in turn, so that no group fills a short list. The order of groups is that of their first.
function inTurns(items, groupOf, most) {
  const groups = new Map();
  for (const item of items) groups.set(groupOf(item), [...(groups.get(groupOf(item)) ?? []), item]);
  const longest = Math.max(0, ...[...groups.values()].map((group) => group.length));
  const rounds = Array.from({ length: longest }, (_, turn) => [...groups.values()].map((group) => group[turn]));
  return rounds.flat().filter((item) => item !== undefined).slice(0, most);
}

// What a mistake has in common with others of its kind.
const CONFUSED = {
  label: (chunk, access, m, i) => `${chunk.samples.label[i]}/${access.prediction(m, i)}`,
  labels: (chunk, access, m, i) => `${chunk.samples.labels[i]}/${access.detail(m, i)?.top?.[0]}`,
  ranking: (chunk, access, m, i) => chunk.samples.from_text[i],
  question: (chunk, access, m, i) => JSON.stringify([chunk.samples.questions[i]?.answer, access.detail(m, i)?.extracted]),
};

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
  question: (chunk, access, m, i) => [h("b", {}, data(shorten(String(chunk.samples.questions[i]?.question ?? chunk.samples.ids[i]), 60))), h("span", { class: "bad-text" }, data(shorten(String(chunk.samples.questions[i]?.answer ?? ""), 40)), " → ", data(shorten(String(access.detail(m, i)?.extracted ?? t("nothing")), 40)))],
};
