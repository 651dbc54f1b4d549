// Published tables with one's own rows in them, and where one's own models stand among the published ones.

const ROUNDED = 5000; // published sizes are rounded to 0.01 million parameters
const MANY_ROWS = 20; // a table of more is shown alone, with tools to find one's way in it

async function publishedView(main) {
  const published = await unpack("published");
  const tables = published.tables.filter((table) => table.rows.length);
  const large = tables.filter((table) => table.rows.length > MANY_ROWS);
  const small = tables.filter((table) => table.rows.length <= MANY_ROWS);
  replace(
    main,
    h("h1", {}, t("Published tables")),
    h("p", { class: "lead" }, t("Numbers as they were printed, in per cent, and the rows of this report in the same form.")),
    tables.some((table) => table.rows.some(([, cells]) => cells.some((cell) => cell.endsWith("≠")))) && h("p", { class: "hint" }, t("≠: over other samples than the benchmark's, so not ranked.")),
    published.standings.length > 0 && standingsSection(published),
    large.length > 0 && largeTables(published, large),
    small.map((table) => smallTable(published, table)),
    h("section", {}, h("h2", {}, t("Sources")), published.sources.map((source) => [
      h("p", {}, h("b", {}, data(source.title)), ": ", data(source.source), ". ", t("Copied on {date}.", { date: source.date })),
      source.notes.map((note) => h("p", { class: "hint" }, data(note))),
    ])),
  );
}

const isOwn = (model) => model.origin !== "published";

function rowHead(model, full) {
  const rest = [model.pretrained, isOwn(model) || full ? model.suffix.replace("[published]", "") : ""].filter(Boolean).join(" ");
  return h("th", { scope: "row" }, data(model.name), (full || isOwn(model)) && h("small", {}, " ", data(rest || " ")));
}

function gridOf(published, table, rows = table.rows) {
  return {
    header: ["model", ...table.header.map((label, c) => [table.groups[c], label, table.metrics[c] && `(${table.metrics[c]})`].filter(Boolean).join(" "))],
    rows: rows.map(([m, cells]) => [published.models[m].label, ...cells]),
    best: new Set(),
    note: `${table.reference}: ${table.title}`,
  };
}

function groupRow(table, before) {
  const spans = spansOf(table.groups).map(({ name, span }) => (name ? h("th", { colspan: span, scope: "colgroup" }, name) : h("td", { colspan: span })));
  return table.groups.some(Boolean) && h("tr", { class: "kinds" }, h("td", { colspan: before }), spans);
}

function smallTable(published, table) {
  return h(
    "section",
    {},
    h("h2", {}, data(table.title)),
    scrollable(
      table.title,
      h(
        "table",
        { class: "plain-table numbers published" },
        h("thead", {}, groupRow(table, 1), h("tr", {}, h("th", { scope: "col" }, t("Model")), table.header.map((label, c) => h("th", { scope: "col", title: table.metrics[c] || null }, told(label))))),
        h("tbody", {}, table.rows.map(([m, cells]) => h("tr", { class: isOwn(published.models[m]) ? "own" : "" }, rowHead(published.models[m]), cells.map((cell) => h("td", {}, cell || "–"))))),
      ),
    ),
    copyMenu(() => gridOf(published, table)),
  );
}

// ------------------------------------------------------------------------------------------ large tables

function largeTables(published, tables) {
  const target = h("div", {});
  const sizes = published.models.filter((model) => isOwn(model) && model.parameters).map((model) => model.parameters);
  const view = { table: tables[0], query: "", most: 0, rows: [] };
  const mine = button(t("Show mine"), () => {
    const box = view.body.closest(".scroll");
    box.scrollTop = view.rows.find((row) => isOwn(row.model)).node.offsetTop - box.clientHeight / 2;
  });
  const draw = () => {
    drawLarge(target, published, view);
    mine.disabled = !view.rows.some((row) => isOwn(row.model));
  };
  const narrow = () => narrowLarge(target, published, view);
  const chooser = select(t("Table"), tables.map((table, i) => [i, `${table.reference}: ${table.title}`]), 0, (value) => {
    view.table = tables[Number(value)];
    draw();
  });
  chooser.classList.add("wide");
  draw();
  return h(
    "section",
    { class: "published-large" },
    h("h2", {}, t("All models")),
    h(
      "div",
      { class: "toolbar" },
      chooser,
      search(t("Filter models"), "", (query) => narrow(Object.assign(view, { query }))),
      sizes.length > 0 && h("div", { class: "checks" }, checkbox(t("At most my size"), false, (on) => narrow(Object.assign(view, { most: on ? Math.max(...sizes) : 0 })))),
      published.models.some(isOwn) && mine,
      copyMenu(() => gridOf(published, view.table, view.rows.filter((row) => !row.node.hidden).map((row) => [row.m, row.cells]))),
    ),
    target,
  );
}

// Columns before the numbers: what is known of a model's size.
const SIZES = [
  ["parameters", word("M parameters"), (model) => (model.parameters ? (model.parameters / 1e6).toFixed(1) : "")],
  ["gflops", word("GFLOPs"), (model) => (model.gflops ? model.gflops.toFixed(1) : "")],
];

// Rows are made once for a table; sorting moves them and filtering hides them, which is quick for any number.
function drawLarge(target, published, view) {
  const { table } = view;
  const order = table.header.map((_, c) => c).sort((a, b) => (table.metrics[a] !== "") - (table.metrics[b] !== "") || a - b); // averages first
  view.rows = table.rows.map(([m, cells]) => {
    const model = published.models[m];
    const texts = [...SIZES.map(([, , text]) => text(model)), ...order.map((c) => cells[c])];
    const node = h("tr", { class: isOwn(model) ? "own" : "" }, rowHead(model, true), texts.map((cell) => h("td", {}, cell || "–")));
    return { m, model, cells, node, numbers: texts.map((cell) => (cell === "" ? null : Number.parseFloat(cell))) };
  });
  const heads = [...SIZES.map(([, label]) => [t(label), ""]), ...order.map((c) => [told(table.header[c]), table.metrics[c]])];
  view.heads = [[t("Model"), ""], ...heads].map(([label, metric], i) => largeHead(label, metric, () => sortLarge(view, i - 1)));
  view.body = h("tbody", {});
  const grouped = { ...table, groups: order.map((c) => table.groups[c]) };
  replace(
    target,
    h(
      "div",
      { class: "scroll tall", tabindex: "0", role: "region", "aria-label": table.title },
      h(
        "table",
        { class: "plain-table numbers published large", style: { "--columns": heads.length } },
        h("caption", { class: "offscreen" }, table.title),
        h("thead", {}, groupRow(grouped, 1 + SIZES.length), h("tr", {}, view.heads)),
        view.body,
      ),
    ),
    h("p", { class: "hint", role: "status" }),
  );
  view.sort = { c: null, up: false };
  sortLarge(view, firstColumn(view, SIZES.length));
  narrowLarge(target, published, view);
}

// The column to begin with: the first one that tells where one's own models are.
function firstColumn(view, start) {
  const own = view.rows.filter((row) => isOwn(row.model));
  const columns = view.rows[0].numbers.map((_, c) => c).slice(start);
  return columns.find((c) => own.length && own.every((row) => row.numbers[c] !== null)) ?? start;
}

function largeHead(label, metric, sort) {
  const arrow = h("span", { class: "arrow", "aria-hidden": "true" }, "↕");
  return h("th", { scope: "col" }, button([h("span", { class: "label" }, label), arrow], sort, { class: "sort", "aria-label": t("Sort by {name}", { name: label }) }), metric && h("small", {}, metric.replaceAll("_", " ")));
}

// The first click puts the largest number first (names: A), the second the smallest. What has no number comes last.
function sortLarge(view, c) {
  const again = view.sort.c === c;
  view.sort = { c, up: again ? !view.sort.up : c < 0 };
  const { up } = view.sort;
  const compare = (a, b) => {
    if (c < 0) return (up ? 1 : -1) * a.model.label.localeCompare(b.model.label);
    const [x, y] = [a.numbers[c], b.numbers[c]];
    if (x === null || y === null) return (x === null) - (y === null) || a.m - b.m;
    return (up ? x - y : y - x) || a.m - b.m;
  };
  view.rows.sort(compare);
  view.body.replaceChildren(...view.rows.map((row) => row.node));
  for (const [i, head] of view.heads.entries()) {
    const active = i === c + 1;
    if (active) head.setAttribute("aria-sort", up ? "ascending" : "descending");
    else head.removeAttribute("aria-sort");
    head.querySelector(".arrow").textContent = active ? (up ? "▲" : "▼") : "↕";
  }
}

// One's own rows are always shown.
function narrowLarge(target, published, view) {
  const words = wordsOf(view.query);
  for (const { model, node } of view.rows) {
    const fits = words.every((one) => model.label.toLowerCase().includes(one)) && (!view.most || (model.parameters && model.parameters <= view.most + ROUNDED));
    node.hidden = !isOwn(model) && !fits;
  }
  const shown = view.rows.filter((row) => !row.node.hidden).length;
  replace(target.querySelector("[role=status]"), t("{shown} of {all} models are shown.", { shown, all: view.rows.length }));
}

// ---------------------------------------------------------------------------------------------- standings

function standingsSection(published) {
  const models = [...new Set(published.standings.map((standing) => standing.model))];
  const target = h("div", { class: "standings" });
  const draw = (m) => replace(target, published.standings.filter((standing) => standing.model === m).map((standing) => standingTable(published.models[m], standing)));
  draw(models[0]);
  return h(
    "section",
    {},
    h("h2", {}, t("Where do I rank")),
    h("p", { class: "lead" }, t("The rank among published models of at most the same size. ~ marks a rank that rounding or your interval leaves open: from - to is the possible range.")),
    models.length > 1 && h("div", { class: "toolbar" }, select(t("Model"), models.map((m) => [m, published.models[m].label]), models[0], (value) => draw(Number(value)))),
    target,
  );
}

function standingTable(model, standing) {
  const size = standing.parameters ? t("{n} models of at most {size} M parameters", { n: standing.compared, size: (standing.parameters / 1e6).toFixed(1) }) : t("{n} models of any size", { n: standing.compared });
  const unknown = standing.unknown > 0 && t("{n} of unknown size left out", { n: standing.unknown });
  const lines = standing.compared ? standing.lines : [];
  return h(
    "div",
    { class: "standing" },
    h("h3", {}, data(standing.title)),
    h("p", { class: "hint" }, [size, unknown].filter(Boolean).join("; ")),
    lines.length > 0 &&
      plainTable(`${model.label}: ${standing.title}`, [t("Benchmark"), t("Yours"), t("Best"), t("Rank"), t("of")], [
        ...lines.map((line) => standingRow(line, [data(line.benchmark), h("small", {}, " ", line.metric)])),
        standing.overall && standingRow(standing.overall, t("Mean of {n}", { n: standing.overall.n })),
      ]),
    standing.left_out.map((text) => h("p", { class: "hint" }, t("Not ranked:"), " ", data(text))),
  );
}

function standingRow(line, name) {
  const open = line.low !== line.high;
  const same = line.published === null ? null : t("published for these weights: {value}", { value: number(line.published, 2, line.percent) });
  return h(
    "tr",
    { class: line.n ? "chosen" : "" },
    h("th", { scope: "row" }, name),
    h("td", { title: same }, number(line.value, 2, line.percent)),
    h("td", {}, line.best === null ? "–" : number(line.best, 2, line.percent)),
    h("td", {}, h("b", {}, line.rank), open && h("small", {}, ` ~ ${line.low}–${line.high}`)),
    h("td", {}, line.among),
  );
}
