// Numbers as people read them: fractions as per cent, everything else as it is.

function number(value, digits = 1, percent = true) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "";
  return ((percent ? 100 : 1) * value).toFixed(digits);
}

function signed(value, digits = 1, percent = true) {
  return `${value > 0 ? "+" : value < 0 ? "−" : "±"}${number(Math.abs(value), digits, percent)}`;
}

function range(low, high, digits = 1, percent = true) {
  return low === null || high === null || low === undefined ? "" : `${number(low, digits, percent)} – ${number(high, digits, percent)}`;
}

// How far an interval reaches: one number if both sides read the same; as eyechart.results.views.
function reach(value, low, high, digits = 1, percent = true) {
  const [below, above] = [value - low, high - value].map((side) => number(Math.max(0, side), digits, percent));
  return below === above ? `±${above}` : `−${below} +${above}`;
}

function pText(p) {
  if (p === null) return "–";
  return p < 0.001 ? "< 0.001" : p.toFixed(3);
}

function compact(value) {
  if (value === null || value === undefined) return "–";
  for (const [size, unit] of [[1e9, "B"], [1e6, "M"], [1e3, "k"]]) {
    if (value >= size) return `${+(value / size).toPrecision(3)}${unit}`;
  }
  return `${+Number(value).toPrecision(3)}`;
}

function bytes(value) {
  if (value === null || value === undefined) return "–";
  return value >= 1e9 ? `${+(value / 1e9).toPrecision(3)} GB` : `${Math.round(value / 1e6)} MB`;
}

function duration(seconds) {
  if (!Number.isFinite(seconds)) return "";
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}

function wordsOf(query) {
  return query.toLowerCase().split(/\s+/).filter(Boolean);
}

// Neighbours with the same name, and how many they are.
function spansOf(names) {
  const spans = [];
  for (const name of names) {
    if (spans.length && spans[spans.length - 1].name === name) spans[spans.length - 1].span += 1;
    else spans.push({ name, span: 1 });
  }
  return spans;
}

function shorten(text, most) {
  return text.length <= most ? text : `${text.slice(0, Math.max(1, most - 1))}…`;
}
