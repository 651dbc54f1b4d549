// The judge audit: each judge's own number, and how far judges agree with themselves, each other and people.

function judgesSection(described) {
  const { audit } = described;
  if (!audit) return null;
  return h(
    "section",
    { class: "judges" },
    h("h2", {}, "Judges"),
    h("p", { class: "note" }, `${count(audit.judged, "answer")} judged, in words of `, data(audit.prompt), ". Agreement of 1 is full, 0 is what chance gives; 95 % intervals in brackets."),
    h(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": "Judges" },
      h(
        "table",
        { class: "plain-table numbers" },
        h("thead", {}, h("tr", {}, audit.header.map((text) => h("th", { scope: "col" }, text)))),
        h("tbody", {}, audit.rows.map(([name, ...cells]) => h("tr", {}, h("th", { scope: "row" }, data(name)), cells.map((text) => h("td", {}, text || "–"))))),
      ),
    ),
    audit.together.length > 0 && [h("h3", {}, "Agreement of judges"), h("ul", {}, audit.together.map((line) => h("li", {}, data(line))))],
  );
}
