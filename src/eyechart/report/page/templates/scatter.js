// Points with a name each. A name stands beside its point, further off at the end of a line, or in a list by number.

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

// Points of {label, x, y, low, high, mark, onclick}.
function scatter(label, points, { xLabel, yLabel, percent, log }) {
  const list = h("ol", { class: "numbered" });
  const draw = (width) => {
    const height = Math.min(420, Math.max(260, width * 0.5));
    const box = { left: 48, right: width - 16, top: 14, bottom: height - 44 };
    const xs = points.map((point) => point.x);
    const bounds = log ? [Math.min(...xs) / 1.3, Math.max(...xs) * 1.3] : domainOf(xs, false);
    const x = (log ? logarithmic : linear)(bounds, [box.left, box.right]);
    const domain = domainOf(points.flatMap((point) => [point.y, point.low, point.high]), percent);
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
