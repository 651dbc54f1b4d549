// Retrieval with a threshold: what is answered, and how well, if results below a similarity are not shown.

const THRESHOLD_LINES = [
  ["precision", word("Precision at s"), (curve, k) => curve.correct[k] / curve.answered[k]],
  ["recall", word("Recall at s"), (curve, k) => curve.correct[k] / curve.queries],
  ["answered", word("Queries answered"), (curve, k) => curve.answered[k] / curve.queries],
];

function thresholdSection(view) {
  const curves = Object.entries((view.chunk.thresholds || {})[view.m] || {}).filter(([, curve]) => curve.s.length > 1);
  if (!curves.length) return null;
  const titles = { retrieval: t("Queries"), "image retrieval": t("Text to image"), "text retrieval": t("Image to text") };
  return h(
    "section",
    { class: "thresholds" },
    h("h2", {}, t("Similarity threshold")),
    h("p", { class: "note" }, t("A query is answered if the similarity of its top result is at least s. Precision is the share of answered queries whose top result is relevant; recall is the share of all queries answered correctly.")),
    h("div", { class: "pair" }, curves.map(([name, curve]) => thresholdFigure(titles[name], curve))),
  );
}

function thresholdFigure(title, curve) {
  const last = curve.s.length - 1;
  const label = similarityFormat(curve.s);
  const state = { k: Math.floor(last / 2), mark: () => {} };
  const readout = h("output", { class: "readout" });
  const show = (k) => {
    state.k = clamp(k, 0, last);
    slider.value = state.k;
    slider.setAttribute("aria-valuetext", `s = ${label(curve.s[state.k])}`);
    const values = THRESHOLD_LINES.map(([key, name, value]) => h("span", { class: key }, h("i", { class: "swatch" }), " ", t(name), " ", h("b", {}, `${number(value(curve, state.k))} %`)));
    replace(readout, h("b", {}, `s = ${label(curve.s[state.k])}`), values);
    state.mark();
  };
  const slider = h("input", { type: "range", min: 0, max: last, step: 1, "aria-label": t("Similarity threshold, {title}", { title }), on: { input: () => show(Number(slider.value)) } });
  const plot = chart(t("{title}: precision, recall and queries answered by similarity", { title }), (width) => {
    const height = Math.min(300, Math.max(200, width * 0.45));
    const box = { left: 40, right: width - 14, top: 10, bottom: height - 38 };
    const x = linear([curve.s[0], curve.s[last]], [box.left, box.right]);
    const y = linear([0, 1], [box.bottom, box.top]);
    const marks = ticks(curve.s[0], curve.s[last], width / 110);
    // A point holds from the previous similarity up to its own: a step.
    const path = (value) => curve.s.map((s, k) => `${k ? `V${y(value(curve, k)).toFixed(1)}` : `M${box.left} ${y(value(curve, 0)).toFixed(1)}`}H${x(s).toFixed(1)}`).join("");
    const cursor = svg("line", { class: "cursor", y1: box.top, y2: box.bottom });
    state.mark = () => ["x1", "x2"].forEach((end) => cursor.setAttribute(end, x(curve.s[state.k]).toFixed(1)));
    state.mark();
    const follow = (event) => {
      const at = event.clientX - event.currentTarget.getBoundingClientRect().left;
      show(curve.s.findIndex((s, k) => k === last || x(s) >= at));
    };
    const drawn = canvasOf(
      width,
      height,
      gridY(y, [0, 0.25, 0.5, 0.75, 1], box.left, box.right, (value) => number(value, 0)),
      marks.map((value) => svg("text", { class: "tick", x: x(value), y: box.bottom + 16, "text-anchor": "middle" }, tickFormat(marks, false)(value))),
      svg("text", { class: "tick", x: (box.left + box.right) / 2, y: height - 4, "text-anchor": "middle" }, t("similarity s")),
      THRESHOLD_LINES.map(([key, name, value]) => svg("g", { class: `line ${key}` }, svg("title", {}, t(name)), svg("path", { d: path(value) }))),
      cursor,
    );
    return set(drawn, { on: { pointermove: follow, pointerdown: follow } });
  });
  show(state.k);
  return h("figure", {}, h("figcaption", {}, title), plot, slider, readout);
}

// As many digits as neighbouring similarities need: cosines have three or four, the logits of a reranker one or two.
function similarityFormat(values) {
  const digits = clamp(3 - Math.floor(Math.log10(Math.max(...values.map(Math.abs), 1e-9))), 0, 6);
  return (value) => value.toFixed(digits).replace("-", "−");
}
