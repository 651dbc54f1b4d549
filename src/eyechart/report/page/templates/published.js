// Tables in the form in which they were published, with one's own rows beside them.

function publishedView(main) {
  replace(
    main,
    h("h1", {}, "Published tables"),
    h("p", { class: "lead" }, "Numbers as they were printed, in per cent, and the rows of this report in the same form."),
    DATA.published.flat().filter((table) => table.rows.length).map(publishedTable),
  );
}

function publishedTable(table) {
  const grouped = table.groups.some(Boolean);
  const grid = () => ({
    header: ["model", ...table.header.map((label, c) => [table.groups[c], label].filter(Boolean).join(" "))],
    rows: table.rows.map(([m, cells]) => [MODELS[m].label, ...cells]),
    best: new Set(),
    note: table.title,
  });
  return h(
    "section",
    {},
    h("h2", {}, table.title),
    h(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": table.title },
      h(
        "table",
        { class: "plain-table numbers published" },
        h(
          "thead",
          {},
          grouped && h("tr", { class: "kinds" }, h("td"), spansOf(table.groups).map(({ name, span }) => (name ? h("th", { colspan: span, scope: "colgroup" }, name) : h("td", { colspan: span })))),
          h("tr", {}, h("th", { scope: "col" }, "Model"), table.header.map((label) => h("th", { scope: "col" }, label))),
        ),
        h("tbody", {}, table.rows.map(([m, cells]) => h("tr", { class: MODELS[m].origin === "published" ? "" : "own" }, h("th", { scope: "row" }, data(MODELS[m].name), MODELS[m].origin !== "published" && h("small", {}, " ", data(MODELS[m].pretrained || " "))), cells.map((cell) => h("td", {}, cell || "–"))))),
      ),
    ),
    copyMenu(grid),
  );
}
