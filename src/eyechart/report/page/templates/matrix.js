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

function sortedModels(models, columns, average) {
  const { key, best } = STATE.sort;
  const column = columns.find((part) => columnKey(part) === key);
  if (key !== "average" && !column) return key === "model" && !best ? [...models].reverse() : models;
  const valueOf = (m) => (column ? valueAt(m, column) : average.values[models.indexOf(m)]);
  const direction = best === (column ? lowerIsBetter(column) : average.lower) ? 1 : -1;
  return [...models].sort((a, b) => {
    const [x, y] = [valueOf(a), valueOf(b)];
    if (x === null || y === null) return (x === null) - (y === null) || a - b;
    return direction * (x - y) || a - b;
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
  return h(
    "table",
    { class: `matrix${STATE.shade ? " shade" : ""}` },
    h("caption", { class: "offscreen" }, t("Models by benchmarks")),
    h(
      "thead",
      {},
      kinds.length > 1 && h("tr", { class: "kinds" }, h("td"), h("td"), kinds.map(({ name, span }) => h("th", { colspan: span, scope: "colgroup" }, told(name)))),
      h(
        "tr",
        {},
        h("th", { scope: "col", class: "model", "aria-sort": ariaSort("model", true) }, sortButton("model", t("Model"), t("Model"), true)),
        h("th", { scope: "col", class: "average", "aria-sort": ariaSort("average", average.lower) }, h("span", { class: "dataset" }, heading), sortButton("average", t("{n} sets", { n: average.used.length }), heading, average.lower)),
        columns.map((column) => columnHead(column)),
      ),
    ),
    h("tbody", {}, models.map((m) => matrixRow(m, columns, average.byModel.get(m)))),
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

function matrixRow(m, columns, average) {
  const model = MODELS[m];
  const isRank = STATE.average === "rank";
  return h(
    "tr",
    { class: model.origin === "eyechart" ? "" : "foreign" },
    h(
      "th",
      { scope: "row", class: "model" },
      h("a", { href: `#/results?model=${m}` }, data(model.name)),
      h("small", {}, data([model.pretrained, model.suffix].filter(Boolean).join(" ") || " ")),
    ),
    h("td", { class: "average" }, average === null ? h("span", { class: "none" }, "–") : h("b", {}, number(average, isRank ? 2 : 1, !isRank))),
    columns.map((column) => matrixCell(m, column)),
  );
}

function matrixCell(m, column) {
  const value = valueAt(m, column);
  if (value === null) return h("td", { class: "none" }, "–");
  const result = resultOf(m, column.b);
  const { percent, shade } = columnScale(column);
  const [from, to] = [result.low[column.i], result.high[column.i]];
  const marks = BENCHMARKS[column.b].marks[column.i] || {};
  const best = (marks.best || []).includes(m);
  const tied = (marks.tied || []).includes(m);
  const notes = [
    `${MODELS[m].label}, ${columnTitle(column)}: ${number(value, 2, percent)}`,
    from !== null && t("95 % interval {range}", { range: range(from, to, 2, percent) }),
    best && t("best"),
    tied && t("not separable from the best"),
    result.differs.length > 0 && t("not comparable: other {aspects}", { aspects: toldList(result.differs) }),
    result.fewer.length > 0 && t("lost samples: {what}", { what: toldList(result.fewer) }),
    result.notices > 0 && count(result.notices, "warning"),
  ].filter(Boolean);
  return h(
    "td",
    {
      class: best ? "best" : tied ? "tied" : null,
      title: notes.join("\n"),
      style: { "--t": shade(value).toFixed(3) },
      on: { click: () => openResult(m, column.b) },
    },
    h("span", { class: "number" }, number(value, 1, percent), (best || tied) && h("span", { class: "mark", role: "img", "aria-label": best ? t("best") : t("not separable from the best") }, best ? "●" : "○"), result.differs.length > 0 && h("span", { class: "mark", role: "img", "aria-label": t("other {aspects}", { aspects: toldList(result.differs) }) }, "≠"), result.fewer.length > 0 && h("span", { class: "mark", role: "img", "aria-label": toldList(result.fewer) }, "*")),
    STATE.intervals && h("small", {}, from === null ? " " : reach(value, from, to, 1, percent)),
  );
}

const scales = new Map();

function columnScale(column) {
  const key = columnKey(column);
  if (!scales.has(key)) {
    const values = modelsOf(column.b).map((m) => valueAt(m, column)).filter((value) => value !== null);
    const [from, to] = lowerIsBetter(column) ? [Math.max(...values), Math.min(...values)] : [Math.min(...values), Math.max(...values)];
    scales.set(key, { percent: columnPercent(column), shade: (value) => (to === from ? 0.5 : (value - from) / (to - from)) });
  }
  return scales.get(key);
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
  const lower = [...columns.map(lowerIsBetter), average.lower];
  const best = new Set([...numbers, means].flatMap((values, c) => bestOf(values, lower[c]).map((r) => `${r}/${c + 1}`)));
  return {
    header: ["model", ...columns.map(columnTitle), averageKind(STATE.average).heading],
    rows: models.map((m, r) => [MODELS[m].label, ...shown.map((column) => column[r])]),
    best,
    note: [averageNote(STATE.average, average, plain), ...cautions(models, columns)].join(" "),
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
