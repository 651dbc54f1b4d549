// The judge audit: each judge's own number, and how far judges agree with themselves, each other and people.

function judgesSection(described) {
  const { audit } = described;
  if (!audit) return null;
  return h(
    "section",
    { class: "judges" },
    h("h2", {}, t("Judges")),
    h("p", { class: "note" }, tNodes("{count} judged, in words of {source}. Agreement of 1 is full, 0 is what chance gives; 95 % intervals in brackets.", { count: count(audit.judged, "answer"), source: data(audit.prompt) })),
    h(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": t("Judges") },
      h(
        "table",
        { class: "plain-table numbers" },
        h("thead", {}, h("tr", {}, audit.header.map((text) => h("th", { scope: "col" }, t(text))))),
        h("tbody", {}, audit.rows.map(([name, ...cells]) => h("tr", {}, h("th", { scope: "row" }, data(name)), cells.map((text) => h("td", {}, text || "–"))))),
      ),
    ),
    audit.together.length > 0 && [h("h3", {}, t("Agreement of judges")), h("ul", {}, audit.together.map((line) => h("li", {}, data(told(line)))))],
  );
}
