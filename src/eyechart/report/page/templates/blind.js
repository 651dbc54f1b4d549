// Blind control: what a model gets right without the images, beside what it gets right with them.

function blindSection(view, redraw) {
  const control = (view.chunk.blind || []).find((one) => one.seeing === view.m || one.blind === view.m);
  if (!control) return null;
  const swapped = control.how === "swapped";
  const how = swapped ? t("with the image of another question") : t("without the image");
  const rows = [{ name: t("all questions"), ...control }, ...control.categories];
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
    h("h2", {}, t("Needs the image")),
    h("p", { class: "note" }, t("The same questions, asked {how}. What the images add is the difference on the same questions, with its 95 % interval.", { how })),
    h(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": t("Blind control") },
      h(
        "table",
        { class: "plain-table numbers" },
        h("thead", {}, h("tr", {}, ["", t("with images"), swapped ? t("other images") : t("blind"), t("images add"), t("95 % interval"), t("questions")].map((text) => h("th", { scope: "col" }, text)))),
        h("tbody", {}, rows.map(blindRow)),
      ),
    ),
    h(
      "p",
      {},
      t("{answered} of {n} questions are answered {how}{guessing}; {seeing} only with it, {neither} not at all, {blind} only {how}. ", {
        answered: both + blind,
        n: control.n,
        how,
        guessing: control.chance === null ? "" : t(" (guessing: {chance})", { chance: number(control.chance) }),
        seeing,
        neither,
        blind,
      }),
      view.chunk.samples && view.chunk.samples.models.includes(control.blind) && button(t("Show the questions answered {how}", { how }), showBlind),
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
