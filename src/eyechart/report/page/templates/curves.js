// Curves over k, compressed vectors, prompt sensitivity and calibration.

function curvesSection(view) {
  const curves = view.chunk.curves;
  if (!curves || !curves[view.m]) return null;
  const names = Object.keys(curves[view.m]).filter((name) => curves[view.m][name].length > 1);
  if (!names.length) return null;
  const title = { retrieval: t("Hit rate at k"), accuracy: t("Right class among the first k"), "image retrieval": t("Text to image: hit rate at k"), "text retrieval": t("Image to text: hit rate at k") };
  return h(
    "section",
    {},
    h("h2", {}, names[0] === "accuracy" ? t("Accuracy at k") : t("Recall at k")),
    h(
      "div",
      { class: "pair" },
      names.map((name) => {
        const series = Object.keys(curves)
          .filter((m) => curves[m][name])
          .map((m) => ({ label: MODELS[m].label, values: curves[m][name], mark: Number(m) === view.m ? "chosen" : "" }));
        return h("figure", {}, h("figcaption", {}, title[name]), lineChart(t("{title}, {model} among all models", { title: title[name], model: MODELS[view.m].label }), view.chunk.k, series, { xLabel: "k" }));
      }),
    ),
    h("p", { class: "note" }, h("span", { class: "swatch chosen" }), " ", data(MODELS[view.m].label), Object.keys(curves).length > 1 && ["  ", h("span", { class: "swatch" }), " ", t("the other models")]),
  );
}

function compressionSection(view) {
  const points = view.chunk.compression && view.chunk.compression[view.m];
  if (!Array.isArray(points) || points.length < 2) return null;
  const benchmark = BENCHMARKS[view.b];
  const of = (point) => `${point.dim} ${point.precision}`;
  return h(
    "section",
    {},
    h("h2", {}, t("Dimensions and precision")),
    h("p", { class: "note" }, t("The same stored vectors, cut to their first dimensions and quantised. The change is measured on the same samples as the full vectors; p is corrected by Holm over all lines.")),
    Object.keys(points[0].metrics).filter((name) => benchmark.metrics.includes(name)).map((name) => {
      const percent = columnPercent({ b: view.b, i: benchmark.metrics.indexOf(name) });
      const lower = lowerIsBetter({ b: view.b, i: benchmark.metrics.indexOf(name) });
      const rows = points.map((point) => ({ ...point, ...point.metrics[name] }));
      const sized = rows.map((row, i) => ({ label: of(row), x: row.bytes, y: row.value, low: row.low, high: row.high, series: row.precision, mark: i ? "tied" : "" }));
      const changes = rows.slice(1).map(({ paired, ...row }) => {
        const mark = paired.p_holm === undefined || paired.p_holm >= 0.05 ? "tied" : paired.difference > 0 === lower ? "bad" : "good";
        return { ...row, label: of(row), value: paired.difference, low: paired.low, high: paired.high, mark, p: paired.p_holm ?? null };
      });
      const [title, change] = [t("{metric} by size of a vector", { metric: name }), t("Change of {metric} to the full vectors", { metric: name })];
      const ends = (row) => (row.low === null ? "–" : t("{low} to {high}", { low: signed(row.low, 1, percent), high: signed(row.high, 1, percent) }));
      return [
        h("div", { class: "pair" }, h("figure", {}, h("figcaption", {}, title), scatter(title, sized, { xLabel: t("bytes per vector"), yLabel: "", percent, log: true })), h("figure", {}, h("figcaption", {}, change), dotPlot(change, changes, { percent, zero: true }))),
        plainTable(change, [t("dimensions and precision"), t("bytes"), name, t("95 % interval"), t("change"), t("its 95 % interval"), "p"], changes.map((row, i) => tableRow(row.label, [row.bytes, number(rows[i + 1].value, 1, percent), range(rows[i + 1].low, rows[i + 1].high, 1, percent) || "–", signed(row.value, 1, percent), ends(row), pText(row.p)]))),
      ];
    }),
  );
}

function promptsSection(view) {
  const found = view.chunk.prompt_sensitivity && view.chunk.prompt_sensitivity[view.m];
  if (!found || !Array.isArray(found.templates) || !Array.isArray(found.acc1)) return null;
  const rows = found.templates
    .map((template, i) => ({ label: isolated("", String(template)), value: found.acc1[i] }))
    .filter((row) => Number.isFinite(row.value))
    .sort((a, b) => b.value - a.value);
  if (!rows.length) return null;
  const values = rows.map((row) => row.value);
  const mean = meanOf(values);
  const spreadOf = Number.isFinite(found.std) ? found.std : Math.sqrt(meanOf(values.map((value) => (value - mean) ** 2)));
  const ensemble = Number.isFinite(found.ensemble) ? found.ensemble : null;
  const listed = rows.length > 40 ? [...rows.slice(0, 20), ...rows.slice(-20)] : rows;
  return h(
    "section",
    {},
    h("h2", {}, t("Prompt sensitivity")),
    h("p", {}, t(ensemble === null ? word("{count}: mean {mean}, standard deviation {spread}, from {low} to {high}.") : word("{count}: mean {mean}, standard deviation {spread}, from {low} to {high}; all together {ensemble}."), { count: count(rows.length, "template"), mean: number(mean, 2), spread: number(spreadOf, 2), low: number(values[values.length - 1], 2), high: number(values[0], 2), ensemble: number(ensemble, 2) })),
    dotPlot(t("Accuracy with each template alone"), listed, { reference: ensemble, referenceLabel: t("all templates together"), reach: ensemble !== null }),
    rows.length > 40 && h("p", { class: "note" }, t("The best and the worst twenty.")),
  );
}

function calibrationSection(view) {
  const found = view.chunk.calibration && view.chunk.calibration[view.m];
  if (!found || !Array.isArray(found.bins)) return null;
  const bins = found.bins.filter((bin) => bin && bin.count > 0 && Number.isFinite(bin.confidence) && Number.isFinite(bin.accuracy));
  if (!bins.length) return null;
  const total = bins.reduce((sum, bin) => sum + bin.count, 0);
  const facts = [["ece", t("expected calibration error")], ["nll", t("negative log-likelihood")], ["brier", t("Brier score")]]
    .filter(([key]) => Number.isFinite(found[key]))
    .map(([key, text]) => `${text} ${found[key].toFixed(3)}`);
  return h(
    "section",
    {},
    h("h2", {}, t("Calibration")),
    facts.length > 0 && h("p", {}, t("{list}.", { list: facts.join(t(", ")) })),
    chart(t("Accuracy against confidence"), (width) => {
      const size = Math.min(width, 420);
      const box = { left: 44, right: size - 12, top: 10, bottom: size - 40 };
      const x = linear([0, 1], [box.left, box.right]);
      const y = linear([0, 1], [box.bottom, box.top]);
      return canvasOf(
        size,
        size,
        gridX(x, [0, 0.25, 0.5, 0.75, 1], box.top, box.bottom, (value) => number(value, 0)),
        gridY(y, [0, 0.25, 0.5, 0.75, 1], box.left, box.right, (value) => number(value, 0)),
        svg("line", { class: "chance", x1: x(0), y1: y(0), x2: x(1), y2: y(1) }),
        svg("text", { class: "tick", x: box.right, y: size - 6, "text-anchor": "end" }, t("confidence")),
        svg("text", { class: "tick", x: box.left + 6, y: 20 }, t("accuracy")),
        bins.map((bin) =>
          svg("g", { class: "row chosen" }, svg("title", {}, t("{n} samples, confidence {confidence}, right {accuracy}", { n: bin.count, confidence: number(bin.confidence), accuracy: number(bin.accuracy) })), svg("line", { class: "whisker", x1: x(bin.confidence), x2: x(bin.confidence), y1: y(bin.confidence), y2: y(bin.accuracy) }), svg("circle", { class: "dot", cx: x(bin.confidence), cy: y(bin.accuracy), r: 3 + 7 * Math.sqrt(bin.count / total) })),
        ),
      );
    }),
    h("p", { class: "note" }, t("Each dot is a group of samples of similar confidence; on the dashed line, confidence and accuracy agree. Large dots hold more samples.")),
  );
}
