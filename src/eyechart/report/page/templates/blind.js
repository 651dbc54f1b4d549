// Blind control: what a model gets right without the images, beside what it gets right with them.

function blindSection(view, redraw) {
  const control = (view.chunk.blind || []).find((one) => one.seeing === view.m || one.blind === view.m);
  if (!control) return null;
  const how = control.how === "swapped" ? "with the image of another question" : "without the image";
  const rows = [{ name: "all questions", ...control }, ...control.categories];
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
    h("h2", {}, "Needs the image"),
    h("p", { class: "note" }, `The same questions, asked ${how}. What the images add is the difference on the same questions, with its 95 % interval.`),
    h(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": "Blind control" },
      h(
        "table",
        { class: "plain-table numbers" },
        h("thead", {}, h("tr", {}, ["", "with images", control.how === "swapped" ? "other images" : "blind", "images add", "95 % interval", "questions"].map((text) => h("th", { scope: "col" }, text)))),
        h("tbody", {}, rows.map(blindRow)),
      ),
    ),
    h(
      "p",
      {},
      `${both + blind} of ${control.n} questions are answered ${how}`,
      control.chance === null ? "" : ` (guessing: ${number(control.chance)})`,
      `; ${seeing} only with it, ${neither} not at all, ${blind} only ${how}. `,
      view.chunk.samples && view.chunk.samples.models.includes(control.blind) && button(`Show the questions answered ${how}`, showBlind),
    ),
  );
}

function blindRow(row) {
  const needed = row.low !== null && row.low > 0;
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, data(row.name)),
    h("td", {}, number(row.seeing_value)),
    h("td", {}, number(row.blind_value)),
    h("td", {}, needed ? h("strong", {}, signed(row.gain)) : signed(row.gain)),
    h("td", {}, range(row.low, row.high) || "–"),
    h("td", {}, row.n),
  );
}
