// Small charts in SVG, drawn at the width they have, and again when it changes.

function chart(label, draw) {
  const node = h("div", { class: "chart" });
  let width = 0;
  const observer = new ResizeObserver(([entry]) => {
    const now = Math.floor(entry.contentRect.width);
    if (now === width || now < 50) return;
    width = now;
    const image = draw(now);
    set(image, { role: "img", "aria-label": label });
    replace(node, image);
  });
  observer.observe(node);
  return node;
}

function canvasOf(width, height, ...children) {
  return svg("svg", { width, height, viewBox: `0 0 ${width} ${height}` }, children);
}

function linear([d0, d1], [r0, r1]) {
  const span = d1 - d0 || 1;
  return (value) => r0 + ((value - d0) / span) * (r1 - r0);
}

function logarithmic([d0, d1], target) {
  const inner = linear([Math.log10(d0), Math.log10(d1)], target);
  return (value) => inner(Math.log10(value));
}

function ticks(low, high, most) {
  const rough = (high - low) / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(rough || 1));
  const step = [1, 2, 2.5, 5, 10].map((part) => part * power).find((part) => part >= rough) || power * 10;
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-6; i += 1) found.push(+(i * step).toPrecision(12));
  return found;
}

function logTicks(low, high) {
  const found = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
    for (const part of [1, 2, 5]) if (part * 10 ** power >= low * 0.999 && part * 10 ** power <= high * 1.001) found.push(part * 10 ** power);
  }
  if (found.length < 2) return ticks(low, high, 4);
  return found.length > 8 ? found.filter((value) => Number.isInteger(Math.log10(value) + 1e-9) || String(value)[0] === "1") : found;
}

// Enough digits to tell neighbouring ticks apart.
function tickFormat(values, percent) {
  const step = values.length > 1 ? (values[1] - values[0]) * (percent ? 100 : 1) : 1;
  const digits = [0, 1, 2, 3].find((n) => Math.abs(step * 10 ** n - Math.round(step * 10 ** n)) < 1e-6) ?? 3;
  return (value) => number(value, digits, percent).replace("-", "−");
}

// The part of 0..1 that holds all values, with some air.
function domainOf(values, fractions = true) {
  const present = values.filter((value) => value !== null && value !== undefined && Number.isFinite(value));
  if (!present.length) return [0, 1];
  const low = Math.min(...present);
  const high = Math.max(...present);
  const air = (high - low) * 0.06 || 0.02;
  return fractions ? [Math.max(0, low - air), Math.min(1, high + air)] : [low - air, high + air];
}

function gridX(x, values, top, bottom, format) {
  return values.map((value) => [
    svg("line", { class: "grid", x1: x(value), x2: x(value), y1: top, y2: bottom }),
    svg("text", { class: "tick", x: x(value), y: bottom + 15, "text-anchor": "middle" }, format(value)),
  ]);
}

function gridY(y, values, left, right, format) {
  return values.map((value) => [
    svg("line", { class: "grid", x1: left, x2: right, y1: y(value), y2: y(value) }),
    svg("text", { class: "tick", x: left - 6, y: y(value) + 4, "text-anchor": "end" }, format(value)),
  ]);
}

// Rows of {label, value, low, high, mark, onclick}: a dot and its interval each.
function dotPlot(label, rows, { percent = true, reference = null, referenceLabel = "", zero = false, reach = false } = {}) {
  return chart(label, (width) => {
    const left = Math.min(width * 0.42, 14 + 7 * Math.max(...rows.map((row) => row.label.length)));
    const step = 26;
    const height = rows.length * step + 34;
    const all = rows.flatMap((row) => [row.value, row.low, row.high]);
    if (zero) all.push(0);
    if (reach) all.push(reference);
    const domain = domainOf(all, percent && !zero);
    const x = linear(domain, [left + 8, width - 46]);
    const marks = ticks(...domain, Math.max(3, width / 130));
    const inside = reference !== null && reference >= domain[0] && reference <= domain[1];
    return canvasOf(
      width,
      height,
      gridX(x, marks, 4, height - 24, tickFormat(marks, percent)),
      zero && svg("line", { class: "axis", x1: x(0), x2: x(0), y1: 4, y2: height - 24 }),
      inside && svg("line", { class: "chance", x1: x(reference), x2: x(reference), y1: 4, y2: height - 24 }, svg("title", {}, referenceLabel)),
      rows.map((row, i) => {
        const y = 4 + step * (i + 0.5);
        const text = (value) => (zero ? signed(value, 1, percent) : number(value, 1, percent));
        return svg(
          "g",
          { class: `row ${row.mark || ""}${row.onclick ? " link" : ""}`, on: row.onclick ? { click: row.onclick } : {} },
          svg("title", {}, `${row.label}: ${text(row.value)}${row.low === null || row.low === undefined ? "" : ` (${t("{low} to {high}", { low: text(row.low), high: text(row.high) })})`}`),
          svg("rect", { class: "hit", x: 0, y: y - step / 2, width, height: step }),
          svg("text", { class: "name", x: left, y: y + 4, "text-anchor": "end" }, shorten(row.label, Math.floor(left / 6.6))),
          row.low !== null && row.low !== undefined && svg("line", { class: "whisker", x1: x(row.low), x2: x(row.high), y1: y, y2: y }),
          svg("circle", { class: "dot", cx: x(row.value), cy: y, r: 4.5 }),
          svg("text", { class: "value", x: width - 2, y: y + 4, "text-anchor": "end" }, text(row.value)),
        );
      }),
    );
  });
}

// Series of {label, values, mark} over the same x values.
function lineChart(label, xs, series, { percent = true, xLabel = "", log = true } = {}) {
  return chart(label, (width) => {
    const height = Math.min(340, Math.max(220, width * 0.5));
    const box = { left: 44, right: width - 14, top: 10, bottom: height - 40 };
    const longest = Math.max(...series.map((part) => part.values.length));
    const used = xs.slice(0, Math.max(2, longest));
    const x = (log ? logarithmic : linear)([used[0], used[used.length - 1]], [box.left, box.right]);
    const domain = domainOf(series.flatMap((part) => part.values), percent);
    const y = linear(domain, [box.bottom, box.top]);
    const levels = ticks(...domain, 5);
    const path = (values) => values.map((value, i) => `${i ? "L" : "M"}${x(xs[i]).toFixed(1)} ${y(value).toFixed(1)}`).join("");
    const ordered = [...series].sort((a, b) => (a.mark ? 1 : 0) - (b.mark ? 1 : 0));
    return canvasOf(
      width,
      height,
      gridY(y, levels, box.left, box.right, tickFormat(levels, percent)),
      used.filter((value) => [1, 2, 5, 10, 20, 50, 100].includes(value)).map((value) =>
        svg("text", { class: "tick", x: x(value), y: box.bottom + 16, "text-anchor": "middle" }, value),
      ),
      svg("text", { class: "tick", x: (box.left + box.right) / 2, y: height - 4, "text-anchor": "middle" }, xLabel),
      ordered.map((part) =>
        svg("g", { class: `series ${part.mark || ""}` }, svg("title", {}, part.label), svg("path", { d: path(part.values) })),
      ),
    );
  });
}

// Points with a name each. A name stands next to its point, further off at the end of a line, or in a list by number.

const LETTER = 6.4; // wide, on average
const IDEOGRAPH = 12.4; // as wide as high
const IDEOGRAPHS = /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe4f\uff00-\uff60]|[\u{20000}-\u{3ffff}]/gu;
const LINE = 14; // high
const LONGEST_NAME = 40;
// Where a name may stand, the best place first: [step to the side, in front of the point or behind it, step down].
const PLACES = [0, -11, 11, -24, 24, -40, 40, -58, 58].flatMap((down) => [1, -1].map((side) => ({ side, down, away: Math.abs(down) > 11 })));

function overlaps(a, b) {
  return a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
}

function widthOf(text) {
  const wide = (text.match(IDEOGRAPHS) || []).length;
  return LETTER * ([...text].length - wide) + IDEOGRAPH * wide + 2;
}

function nameBox(x, y, length, { side, down, away }) {
  const near = away ? 16 : Math.abs(down) > 0 ? 5 : 9;
  const left = side > 0 ? x + near : x - near - length;
  return { left, right: left + length, top: y + down - LINE / 2, bottom: y + down + LINE / 2, side, down, away };
}

// Find a place for every name; a point whose name fits nowhere gets a number instead.
function placeNames(points, room) {
  const dots = points.map(({ px, py }) => ({ left: px - 5, right: px + 5, top: py - 5, bottom: py + 5 }));
  const taken = [];
  let numbers = 0;
  return points.map((point, i) => {
    const free = (box) =>
      box.left >= room.left && box.right <= room.right && box.top >= room.top && box.bottom <= room.bottom &&
      !taken.some((other) => overlaps(box, other)) && !dots.some((dot, k) => k !== i && overlaps(box, dot));
    const find = (text) => PLACES.map((place) => nameBox(point.px, point.py, widthOf(text), place)).find(free);
    const name = shorten(point.label, LONGEST_NAME);
    let [text, box, number] = [name, find(name), 0];
    if (!box) {
      numbers += 1;
      number = numbers;
      text = String(number);
      box = find(text) || nameBox(point.px, point.py, widthOf(text), PLACES[0]);
    }
    taken.push(box);
    return { text, box, number };
  });
}

function nameMark(point, { text, box, number }) {
  const end = box.side > 0 ? box.left : box.right;
  const y = (box.top + box.bottom) / 2;
  return [
    box.away && svg("line", { class: "leader", x1: point.px, y1: point.py, x2: end - box.side * 2, y2: y }),
    svg("text", { class: number ? "name number" : "name", x: end, y: y + 4, "text-anchor": box.side > 0 ? "start" : "end" }, text),
  ];
}

// Points of {label, x, y, low, high, mark, onclick, series}; a line joins those of a series. The axis reaches to a
// reference, so that a difference looks as large as it is.
function scatter(label, points, { xLabel, yLabel, percent, log, reference = null, referenceLabel = "" }) {
  const list = h("ol", { class: "numbered" });
  const draw = (width) => {
    const height = Math.min(420, Math.max(260, width * 0.5));
    const box = { left: 48, right: width - 16, top: 14, bottom: height - 44 };
    const xs = points.map((point) => point.x);
    const bounds = log ? [Math.min(...xs) / 1.3, Math.max(...xs) * 1.3] : domainOf(xs, false);
    const x = (log ? logarithmic : linear)(bounds, [box.left, box.right]);
    const domain = domainOf([reference, ...points.flatMap((point) => [point.y, point.low, point.high])], percent);
    const y = linear(domain, [box.bottom, box.top]);
    const marks = log ? logTicks(...bounds) : ticks(...bounds, width / 110);
    const levels = ticks(...domain, 5);
    const placed = points.map((point) => ({ ...point, px: x(point.x), py: y(point.y) }));
    const names = placeNames(placed, { left: box.left, right: width, top: 0, bottom: box.bottom + 4 });
    replace(list, placed.filter((_, i) => names[i].number).map((point) => h("li", {}, data(point.label))));
    return canvasOf(
      width,
      height,
      gridY(y, levels, box.left, box.right, tickFormat(levels, percent)),
      gridX(x, marks, box.top, box.bottom, compact),
      svg("text", { class: "tick", x: box.right, y: height - 6, "text-anchor": "end" }, xLabel),
      svg("text", { class: "tick", x: box.left, y: 10, "text-anchor": "start" }, yLabel),
      reference !== null && [svg("line", { class: "chance", x1: box.left, x2: box.right, y1: y(reference), y2: y(reference) }), svg("text", { class: "tick", x: box.right, y: y(reference) - 5, "text-anchor": "end" }, referenceLabel)],
      [...new Set(points.map((point) => point.series).filter(Boolean))].map((series) =>
        svg("g", { class: "series" }, svg("title", {}, series), svg("polyline", { points: placed.filter((point) => point.series === series).map((point) => `${point.px.toFixed(1)},${point.py.toFixed(1)}`).join(" ") })),
      ),
      placed.map((point, i) =>
        svg(
          "g",
          { class: `row point ${point.mark || ""}${point.onclick ? " link" : ""}`, on: point.onclick ? { click: point.onclick } : {} },
          svg("title", {}, t("{model}: {y} at {x}", { model: point.label, y: number(point.y, 1, percent), x: compact(point.x) })),
          point.low !== null && point.low !== undefined && svg("line", { class: "whisker", x1: point.px, x2: point.px, y1: y(point.low), y2: y(point.high) }),
          nameMark(point, names[i]),
          svg("circle", { class: "dot", cx: point.px, cy: point.py, r: 5 }),
        ),
      ),
    );
  };
  return h("div", {}, chart(label, draw), list);
}
