// Models x benchmarks: the table that the page opens with.

function shownModels() {
  const words = wordsOf(STATE.query);
  return MODELS.map((_, m) => m).filter(
    (m) => !STATE.hiddenModels.includes(MODELS[m].label) && words.every((word) => MODELS[m].label.toLowerCase().includes(word)),
  );
}

function shownColumns() {
  return allColumns(STATE.metric).filter((column) => !STATE.hiddenBenchmarks.includes(BENCHMARKS[column.b].label + BENCHMARKS[column.b].task));
}

// The verdict's averages and ranks are over all benchmarks and primary metrics: anything else shown has none.
function standingOf(m) {
  const whole = STATE.metric === "" && STATE.average === "plain" && !STATE.hiddenBenchmarks.length;
  return (whole && DATA.verdict.averages[m]) || null;
}

const isRanked = (m) => Number.isInteger(standingOf(m)?.rank_low);

// What is known about the cost of a model; a column appears if any model shown has it.
const COSTS = [
  ["parameters", word("Parameters"), true, (model) => compact(model.parameters)],
  ["throughput", word("Throughput"), false, (model) => compact(model.throughput)],
  ["memory", word("Peak memory"), true, (model) => bytes(model.memory)],
];

function shownCosts(models) {
  return STATE.costs ? COSTS.filter(([key]) => models.some((m) => MODELS[m][key])) : [];
}

// The unit in the heading if all models have the same, else in each cell.
function unitOf(models) {
  const units = new Set(models.map((m) => MODELS[m].unit).filter(Boolean));
  return units.size === 1 ? [...units][0] : "";
}

function sortedModels(models, columns, average) {
  const { key, best } = STATE.sort;
  if (key === "model") return best ? models : [...models].reverse();
  const direction = best ? 1 : -1;
  if (key === "rank" && models.some(isRanked)) {
    // Models that share a rank are sorted by name, not by a difference that is noise.
    const rank = (m) => (isRanked(m) ? 1e6 * standingOf(m).rank_low + standingOf(m).rank_high : Infinity);
    return [...models].sort((a, b) => (rank(a) === rank(b) ? a - b : direction * (rank(a) - rank(b))));
  }
  const column = columns.find((part) => columnKey(part) === key);
  const cost = COSTS.find(([name]) => name === key);
  const valueOf = (m) => (column ? valueAt(m, column) : cost ? MODELS[m][key] || null : average.values[models.indexOf(m)]);
  const lower = column ? lowerIsBetter(column) : cost ? cost[2] : average.lower;
  return [...models].sort((a, b) => {
    const [x, y] = [valueOf(a), valueOf(b)];
    if (x === null || y === null) return (x === null) - (y === null) || a - b;
    return (lower ? direction : -direction) * (x - y) || a - b;
  });
}

// The first click puts the best first, a second one the worst; names start with A.
function sortButton(key, label, hint, lower) {
  const active = STATE.sort.key === key;
  const arrow = active ? { ascending: "▲", descending: "▼" }[ariaSort(key, lower)] : "↕";
  const toggle = () => {
    STATE.sort = { key, best: !(active && STATE.sort.best) };
    saveState();
    drawOverview({ focus: key });
  };
  return button([label, h("span", { class: "arrow", "aria-hidden": "true" }, arrow)], toggle, {
    class: "sort",
    "aria-label": t("Sort by {what}", { what: hint }),
    "data-sort": key,
  });
}

function ariaSort(key, lower) {
  if (STATE.sort.key !== key) return null;
  return STATE.sort.best === lower ? "ascending" : "descending";
}

function matrixTable(models, columns, average) {
  const kinds = spansOf(columns.map((column) => BENCHMARKS[column.b].kind));
  const heading = t(averageKind(STATE.average).heading);
  const costs = shownCosts(models);
  const ranked = models.some(isRanked);
  const unit = unitOf(models);
  const own = (key, label, hint, lower, small) => h("th", { scope: "col", class: key, "aria-sort": ariaSort(key, lower) }, h("span", { class: "dataset" }, label), sortButton(key, small, hint, lower));
  return h(
    "table",
    { class: `matrix${STATE.shade ? " shade" : ""}` },
    h("caption", { class: "offscreen" }, t("Models by benchmarks")),
    h(
      "thead",
      {},
      kinds.length > 1 && h("tr", { class: "kinds" }, h("td", { colspan: 2 + ranked + costs.length }), kinds.map(({ name, span }) => h("th", { colspan: span, scope: "colgroup" }, told(name)))),
      h(
        "tr",
        {},
        h("th", { scope: "col", class: "model", "aria-sort": ariaSort("model", true) }, sortButton("model", t("Model"), t("Model"), true)),
        ranked && own("rank", t("Rank"), t("Rank"), true, "95 %"),
        own("average", heading, heading, average.lower, count(average.used.length, "benchmark")),
        costs.map(([key, label, lower]) => own(key, t(label), t(label), lower, key === "throughput" ? told(unit) : "")),
        columns.map((column) => columnHead(column)),
      ),
    ),
    h("tbody", {}, models.map((m) => matrixRow(m, columns, average.byModel.get(m), { ranked, costs, unit }))),
    chanceRow(columns, average, ranked, costs.length),
  );
}

// The level of guessing, where it is known.
function chanceRow(columns, average, ranked, costs) {
  const chances = columns.map((column) => BENCHMARKS[column.b].chance[column.i]);
  if (chances.every((value) => value === null)) return null;
  const cell = (value, props, percent = true) => h("td", props, value === null ? "–" : number(value, 1, percent));
  return h(
    "tfoot",
    {},
    h(
      "tr",
      { class: "chance" },
      h("th", { scope: "row", class: "model" }, t("Chance")),
      ranked && h("td", { class: "rank" }),
      cell(chanceOf(columns, average), { class: "average" }),
      costs > 0 && h("td", { colspan: costs }),
      columns.map((column, c) => cell(chances[c], {}, columnPercent(column))),
    ),
  );
}

function columnHead(column) {
  const benchmark = BENCHMARKS[column.b];
  const key = columnKey(column);
  return h(
    "th",
    { scope: "col", "aria-sort": ariaSort(key, lowerIsBetter(column)) },
    h("a", { class: "dataset", href: `#/benchmark/${column.b}`, title: benchmark.spellings.join(", ") || null }, data(benchmark.label)),
    sortButton(key, benchmark.short[column.i], columnTitle(column), lowerIsBetter(column)),
  );
}

function matrixRow(m, columns, average, { ranked, costs, unit }) {
  const model = MODELS[m];
  const isRank = STATE.average === "rank";
  const known = standingOf(m);
  const ends = averageEnds(m, average);
  const costText = ([key, , , text]) => (model[key] ? [text(model), key === "throughput" && !unit && h("small", {}, told(model.unit))] : h("span", { class: "none" }, "–"));
  return h(
    "tr",
    { class: model.origin === "eyechart" ? "" : "foreign" },
    h(
      "th",
      { scope: "row", class: "model" },
      h("a", { href: `#/results?model=${m}` }, data(model.name)),
      h("small", {}, data([model.pretrained, model.suffix].filter(Boolean).join(" ") || " ")),
    ),
    ranked && h("td", { class: "rank" }, isRanked(m) ? rankRange(known) : h("span", { class: "none" }, "–")),
    h(
      "td",
      { class: columns.every((column) => valueAt(m, column) === null || atChance(m, column)) ? "average at-chance" : "average" },
      average === null ? h("span", { class: "none" }, "–") : number(average, isRank ? 2 : 1, !isRank),
      STATE.intervals && ends && h("small", {}, reach(average, ends.low, ends.high)),
    ),
    costs.map((cost) => h("td", { class: "cost" }, costText(cost))),
    columns.map((column) => matrixCell(m, column)),
  );
}

// The interval of an average, if it is that of the number shown: with fewer models, more benchmarks may be common.
function averageEnds(m, average) {
  const known = standingOf(m);
  return known && known.low !== null && Math.abs(known.value - average) < 1e-6 ? known : null;
}

function endsOf(m, column) {
  const result = resultOf(m, column.b);
  return result ? { low: result.low[column.i], high: result.high[column.i] } : null;
}

function rankRange({ rank_low: low, rank_high: high }) {
  return low === high ? String(low) : `${low}–${high}`;
}

function matrixCell(m, column) {
  const value = valueAt(m, column);
  if (value === null) return h("td", { class: "none" }, "–");
  const result = resultOf(m, column.b);
  const percent = columnPercent(column);
  const [from, to] = [result.low[column.i], result.high[column.i]];
  const mark = markOf(m, column);
  const guess = atChance(m, column);
  const words = { best: t("best"), tied: t("not separable from the best") };
  const notes = [
    `${MODELS[m].label}, ${columnTitle(column)}: ${number(value, 2, percent)}`,
    from !== null && t("95 % interval {range}", { range: range(from, to, 2, percent) }),
    guess && t("not above chance ({chance})", { chance: number(BENCHMARKS[column.b].chance[column.i], 2, percent) }),
    words[mark],
    result.differs.length > 0 && t("not comparable: other {aspects}", { aspects: toldList(result.differs) }),
    result.fewer.length > 0 && t("lost samples: {what}", { what: toldList(result.fewer) }),
    ...result.warnings.map((place) => told(DATA.warnings[place][1])),
  ].filter(Boolean);
  const sign = (text, label) => h("span", { class: "mark", role: "img", "aria-label": label }, text);
  return h(
    "td",
    {
      class: [mark, mark === "best" && isAhead(column) && "ahead", guess && "at-chance"].filter(Boolean).join(" ") || null,
      title: notes.join("\n"),
      style: { "--t": toneOf(m, column).toFixed(3) },
      on: { click: () => openResult(m, column.b) },
    },
    h("span", { class: "number" }, number(value, 1, percent), mark && sign(mark === "best" ? "●" : "○", words[mark]), result.differs.length > 0 && sign("≠", t("other {aspects}", { aspects: toldList(result.differs) })), lostMark(m, column.b)),
    STATE.intervals && h("small", {}, from === null ? " " : reach(value, from, to, 1, percent)),
  );
}

// Shading runs from chance, or the worst possible value, to the best of the column. What is not separable from the best
// looks like it, and what is not above chance has none.
function toneOf(m, column) {
  if (atChance(m, column)) return 0;
  if (markOf(m, column)) return 1;
  const values = modelsOf(column.b).map((other) => valueAt(other, column)).filter((value) => value !== null);
  const [least, most, lower] = [Math.min(...values), Math.max(...values), lowerIsBetter(column)];
  const worst = columnPercent(column) ? Number(lower) : lower ? Math.max(most, 2 * least) : Math.min(least, 0);
  const from = BENCHMARKS[column.b].chance[column.i] ?? worst;
  const best = lower ? least : most;
  return best === from ? 1 : clamp((valueAt(m, column) - from) / (best - from), 0, 1);
}

// A result with lost or unreadable samples has a mark; the footnote below the table or chart says what is missing.

function lostMark(m, b) {
  const { fewer } = resultOf(m, b);
  return fewer.length > 0 && h("span", { class: "mark", role: "img", "aria-label": t("lost samples: {what}", { what: toldList(fewer) }) }, "*");
}

const FOOTNOTES = 6;
const NAMED = 3; // models that a footnote lists by name

// One line for all models that lost the same of a benchmark.
function lostNotes(cells) {
  const groups = new Map();
  for (const { m, b } of cells) {
    const what = toldList(resultOf(m, b)?.fewer ?? []);
    if (what) groups.set(`${b} ${what}`, { b, what, models: [...(groups.get(`${b} ${what}`)?.models ?? []), m] });
  }
  const line = ({ b, what, models }) => {
    const names = models.length > NAMED ? count(models.length, "model") : models.map((m) => MODELS[m].label).join(t(", "));
    return h("li", {}, h("span", { class: "mark" }, "*"), " ", data(t("{model} on {benchmark}: {what}", { model: names, benchmark: benchmarkTitle(b), what })));
  };
  const lines = [...groups.values()];
  const more = lines.length - FOOTNOTES;
  return lines.length > 0 && h("ul", { class: "footnotes" }, lines.slice(0, FOOTNOTES).map(line), more > 0 && h("li", {}, h("a", { href: "#/results?only=fewer" }, t("and {n} more", { n: more }))));
}

// The table as it stands, for copying: the same cells as `eyechart build --layout matrix`.
function matrixGrid() {
  const all = shownModels();
  const columns = shownColumns();
  const average = averageOf(all, columns, STATE.average);
  const models = sortedModels(all, columns, average);
  const isRank = STATE.average === "rank";
  const means = models.map((m) => average.values[all.indexOf(m)]);
  const numbers = columns.map((column) => models.map((m) => valueAt(m, column)));
  const shown = numbers.map((values, c) => values.map((value) => number(value, 1, columnPercent(columns[c]))));
  shown.push(means.map((value) => number(value, isRank ? 2 : 1, !isRank)));
  const places = (keep) => new Set(columns.flatMap((column, c) => models.flatMap((m, r) => (keep(markOf(m, column), column) ? [`${r}/${c + 1}`] : []))));
  const ahead = (mark, column) => mark === "best" && isAhead(column);
  return {
    header: ["model", ...columns.map(columnTitle), averageKind(STATE.average).heading],
    rows: models.map((m, r) => [MODELS[m].label, ...shown.map((column) => column[r])]),
    best: places(ahead),
    tied: places((mark, column) => mark && BENCHMARKS[column.b].marks[column.i].how && !ahead(mark, column)),
    heads: [["", "model"], ...columns.map((column) => [BENCHMARKS[column.b].label, BENCHMARKS[column.b].short[column.i]]), ["", averageKind(STATE.average).heading]],
    note: [averageNote(STATE.average, average, (text, values = {}) => plain(singular(text, values), values)), ...cautions(models, columns)].join(" "),
  };
}

// Which cells are with lost samples, and which are of something else than their column's best.
function cautions(models, columns) {
  const benchmarks = [...new Set(columns.map((column) => column.b))];
  const kinds = [["With lost samples", "fewer"], ["Not comparable with the best, as these differ", "differs"]];
  return kinds.flatMap(([what, key]) => {
    const words = (m, b) => resultOf(m, b)?.[key].join(", ");
    const found = models.flatMap((m) => benchmarks.filter((b) => words(m, b)).map((b) => `${MODELS[m].label} on ${BENCHMARKS[b].label}: ${words(m, b)}`));
    return found.length ? [`${what}: ${found.join("; ")}.`] : [];
  });
}
