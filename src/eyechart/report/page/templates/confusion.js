// Which class is taken for which: an image that can be zoomed, and the most frequent confusions as a list.

// Room at the right, for the slanted names of the last columns.
const EDGE = 36;

function confusionSection(view) {
  const { chunk } = view;
  const packed = chunk.confusion && chunk.confusion[view.m];
  if (!packed) return null;
  const classes = chunk.class_counts[view.m].length;
  const [steps, counts] = packed;
  let place = 0;
  const cells = steps.map((step, i) => {
    place += step;
    return { label: Math.floor(place / classes), prediction: place % classes, n: counts[i] };
  });
  if (!cells.length) return null;
  const top = [...cells].sort((a, b) => b.n - a.n || a.label - b.label).slice(0, 12);
  return h(
    "section",
    { class: "confusion" },
    h("h2", {}, t("Confusions")),
    h(
      "div",
      { class: "pair" },
      confusionImage(view, cells, classes),
      h(
        "div",
        {},
        h("h3", {}, t("Most frequent")),
        h("ol", { class: "top-confusions" }, top.map((cell) => h("li", {}, button([tNodes("{label} taken for {prediction}", { label: data(className(chunk, cell.label)), prediction: data(className(chunk, cell.prediction)) }), h("b", {}, ` ${cell.n}×`)], () => showCell(view, cell.label, cell.prediction), { class: "plain" })))),
      ),
    ),
  );
}

function confusionImage(view, cells, classes) {
  const { chunk } = view;
  const recall = chunk.per_class[view.m];
  const counts = chunk.class_counts[view.m];
  const byCell = new Map(cells.map((cell) => [cell.label * classes + cell.prediction, cell.n]));
  const nOf = (label, prediction) => (label === prediction ? Math.round((recall[label] ?? 0) * counts[label]) : byCell.get(label * classes + prediction) || 0);
  const window = { x: 0, y: 0, size: classes };
  const cursor = { label: 0, prediction: 0 };
  const canvas = h("canvas", { tabindex: "0", role: "img", "aria-label": t("Confusion matrix of {n} classes; rows are true classes, columns predictions. Arrow keys move, Enter shows the samples, plus and minus zoom. The most frequent confusions are listed next to it.", { n: classes }) });
  const status = h("p", { class: "note status", role: "status" }, t("Rows are true classes, columns predictions."));
  const say = () => {
    const n = nOf(cursor.label, cursor.prediction);
    const seen = { label: data(className(chunk, cursor.label)), prediction: data(className(chunk, cursor.prediction)), n, all: counts[cursor.label] };
    replace(status, tNodes(cursor.label === cursor.prediction ? word("{label} recognised: {n} of {all}") : word("{label} taken for {prediction}: {n} of {all}"), seen));
  };
  let side = 0;
  let margin = 0;
  const paint = () => paintConfusion(canvas, { classes, cells, recall, counts, chunk, window, cursor, side, margin });
  const zoom = (factor, x = 0.5, y = 0.5) => {
    const size = Math.min(classes, Math.max(Math.min(4, classes), window.size * factor));
    window.x = clamp(window.x + x * (window.size - size), 0, classes - size);
    window.y = clamp(window.y + y * (window.size - size), 0, classes - size);
    window.size = size;
    paint();
  };
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    const x = (event.clientX - box.left - margin) / (side - margin - EDGE);
    const y = (event.clientY - box.top - margin) / (side - margin - EDGE);
    return { x, y, prediction: Math.floor(window.x + x * window.size), label: Math.floor(window.y + y * window.size) };
  };
  const inside = (spot) => spot.x >= 0 && spot.y >= 0 && spot.x < 1 && spot.y < 1 && spot.label < classes && spot.prediction < classes;
  const follow = (event) => {
    const spot = at(event);
    if (!inside(spot)) return;
    Object.assign(cursor, { label: spot.label, prediction: spot.prediction });
    say();
    paint();
  };
  canvas.addEventListener("mousemove", follow);
  canvas.addEventListener("click", (event) => inside(at(event)) && (follow(event), showCell(view, cursor.label, cursor.prediction)));
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const spot = at(event);
    zoom(event.deltaY > 0 ? 1.25 : 0.8, clamp(spot.x, 0, 1), clamp(spot.y, 0, 1));
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (step) {
      cursor.label = clamp(cursor.label + step[0], 0, classes - 1);
      cursor.prediction = clamp(cursor.prediction + step[1], 0, classes - 1);
      window.y = clamp(window.y, cursor.label + 1 - window.size, cursor.label);
      window.x = clamp(window.x, cursor.prediction + 1 - window.size, cursor.prediction);
      say();
      paint();
    } else if (event.key === "Enter") showCell(view, cursor.label, cursor.prediction);
    else if (event.key === "+" || event.key === "=") zoom(0.7);
    else if (event.key === "-") zoom(1.4);
    else return;
    event.preventDefault();
  });
  const holder = h("div", { class: "confusion-canvas" }, canvas);
  new ResizeObserver(([entry]) => {
    side = Math.min(560, Math.floor(entry.contentRect.width));
    margin = side > 420 ? 96 : 64;
    paint();
  }).observe(holder);
  document.addEventListener("themechange", paint);
  const controls = h("div", { class: "toolbar" }, button(t("Zoom in"), () => zoom(0.6, (cursor.prediction + 0.5 - window.x) / window.size, (cursor.label + 0.5 - window.y) / window.size)), button(t("Zoom out"), () => zoom(1.6)), button(t("Whole"), () => zoom(1e6)));
  return h("div", {}, holder, status, controls);
}

function clamp(value, low, high) {
  return Math.min(Math.max(value, low), Math.max(low, high));
}

function paintConfusion(canvas, { classes, cells, recall, counts, chunk, window: part, cursor, side, margin }) {
  if (!side) return;
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  const scale = globalThis.devicePixelRatio || 1;
  canvas.width = side * scale;
  canvas.height = (side - EDGE + 2) * scale;
  canvas.style.width = `${side}px`;
  canvas.style.height = `${side - EDGE + 2}px`;
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  const inner = side - margin - EDGE;
  const cell = inner / part.size;
  const x = (i) => margin + (i - part.x) * cell;
  const y = (i) => margin + (i - part.y) * cell;
  pen.fillStyle = colour("--sunken");
  pen.fillRect(margin, margin, inner, inner);
  pen.save();
  pen.beginPath();
  pen.rect(margin, margin, inner, inner);
  pen.clip();
  const dot = (label, prediction, share, name) => {
    if (label + 1 < part.y || label > part.y + part.size || prediction + 1 < part.x || prediction > part.x + part.size) return;
    pen.globalAlpha = 0.12 + 0.88 * Math.sqrt(share);
    pen.fillStyle = colour(name);
    pen.fillRect(x(prediction), y(label), Math.max(cell - (cell > 6 ? 1 : 0), 1), Math.max(cell - (cell > 6 ? 1 : 0), 1));
  };
  recall.forEach((value, i) => value && dot(i, i, value, "--accent"));
  for (const { label, prediction, n } of cells) dot(label, prediction, n / counts[label], "--bad");
  pen.globalAlpha = 1;
  if (cell > 4) {
    pen.strokeStyle = colour("--ink");
    pen.strokeRect(x(cursor.prediction) + 0.5, y(cursor.label) + 0.5, cell - 1, cell - 1);
  }
  pen.restore();
  if (cell < 9) return;
  pen.fillStyle = colour("--muted");
  pen.font = `${Math.min(12, cell)}px ${style.getPropertyValue("--sans")}`;
  pen.textBaseline = "middle";
  const fitted = (name, most = 30) => (most > 1 && pen.measureText(shorten(name, most)).width > margin - 8 ? fitted(name, most - 1) : shorten(name, most));
  for (let i = Math.ceil(part.y); i < Math.min(classes, part.y + part.size); i += 1) {
    pen.textAlign = "right";
    pen.fillText(fitted(className(chunk, i)), margin - 5, y(i) + cell / 2);
  }
  for (let i = Math.ceil(part.x); i < Math.min(classes, part.x + part.size); i += 1) {
    pen.save();
    pen.translate(x(i) + cell / 2, margin - 5);
    pen.rotate(-Math.PI / 3);
    pen.textAlign = "left";
    pen.fillText(fitted(className(chunk, i)), 0, 0);
    pen.restore();
  }
}
