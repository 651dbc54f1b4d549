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
