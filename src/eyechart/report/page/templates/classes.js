// Per-class figures: the weakest first, with search.

const CLASSES_SHOWN = 24;

function className(chunk, i) {
  return i === null ? null : (chunk.classnames && chunk.classnames[i]) ?? t("class {i}", { i });
}

function classNames(chunk, labels) {
  return labels.map((label, k) => [k > 0 && ", ", data(className(chunk, label))]);
}

function classesSection(view) {
  const { chunk } = view;
  const values = chunk.per_class && chunk.per_class[view.m];
  if (!values) return null;
  const title = chunk.form === "labels" ? t("Classes by average precision") : t("Classes by recall");
  const state = { query: "", down: false, all: false };
  const list = h("ol", { class: "bars classes" });
  const more = h("div", {});
  const draw = () => {
    const found = values
      .map((value, i) => ({ i, value, n: chunk.class_counts[view.m][i] }))
      .filter((row) => row.value !== null && className(chunk, row.i).toLowerCase().includes(state.query.toLowerCase()))
      .sort((a, b) => (state.down ? b.value - a.value : a.value - b.value) || a.i - b.i);
    const shown = state.all ? found : found.slice(0, CLASSES_SHOWN);
    replace(list, shown.map((row) => classBar(view, row)));
    replace(more, found.length > shown.length && button(t("Show all {n}", { n: found.length }), () => { state.all = true; draw(); }), !found.length && h("p", { class: "empty" }, t("No class matches.")));
  };
  draw();
  const order = select(t("Order"), [["up", t("weakest first")], ["down", t("strongest first")]], "up", (value) => { state.down = value === "down"; draw(); });
  return h(
    "section",
    {},
    h("h2", {}, title),
    h("div", { class: "toolbar" }, search(t("Search classes"), "", (query) => { state.query = query; draw(); }), order),
    list,
    more,
  );
}

function classBar(view, row) {
  const name = className(view.chunk, row.i);
  const open = view.chunk.form === "label" && view.chunk.samples ? () => showCell(view, row.i, null) : null;
  const label = open ? button(data(name), open, { class: "plain", title: t("Show the samples of this class") }) : data(name);
  return h(
    "li",
    {},
    h("span", { class: "bar-name" }, label),
    h("span", { class: "bar-track", "aria-hidden": "true" }, h("span", { class: "bar", style: { width: `${100 * row.value}%` } })),
    h("span", { class: "bar-value" }, number(row.value), h("small", {}, " ", t("of {n}", { n: row.n }))),
  );
}
