// The data of the page: the overview at once, the chunk of a benchmark when it is opened.

// A name with marks that turn the direction of text is wrapped so that it turns only itself, wherever it is written.
function isolated(key, value) {
  return typeof value === "string" && /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/.test(value) ? `\u2068${value}\u2069` : value;
}

const DATA = JSON.parse(document.getElementById("overview").textContent, isolated);
const MODELS = DATA.models;
const BENCHMARKS = DATA.benchmarks;
const RESULTS = new Map();
for (const [m, b, values, low, high, warnings, fewer, differs] of DATA.results) {
  RESULTS.set(`${m}/${b}`, { m, b, values, low, high, warnings, fewer, differs });
}

function resultOf(m, b) {
  return RESULTS.get(`${m}/${b}`);
}

function modelsOf(b) {
  return MODELS.map((_, m) => m).filter((m) => resultOf(m, b));
}

const unpacked = new Map();

async function unpack(id) {
  if (!unpacked.has(id)) unpacked.set(id, decode(document.getElementById(id).textContent));
  return unpacked.get(id);
}

async function decode(text) {
  if (typeof DecompressionStream === "undefined") throw new Error(t("This browser is too old to unpack the samples."));
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).json();
}

function chunkOf(b) {
  return unpack(`chunk-${b}`);
}

// A column is one metric of one benchmark.
function allColumns(metric) {
  return BENCHMARKS.flatMap((benchmark, b) => {
    const metrics = metric === "" ? benchmark.primary : [benchmark.metrics.indexOf(metric)].filter((i) => i >= 0);
    return metrics.map((i) => ({ b, i }));
  });
}

function valueAt(m, column) {
  const result = resultOf(m, column.b);
  const value = result ? result.values[column.i] : null;
  return value === undefined ? null : value;
}

function lowerIsBetter(column) {
  return BENCHMARKS[column.b].lower[column.i];
}

// Compare two models by a column, the better one first.
function byColumn(column) {
  const worst = lowerIsBetter(column) ? Infinity : -Infinity;
  const value = (m) => valueAt(m, column) ?? worst;
  return (x, y) => (value(x) === value(y) ? 0 : lowerIsBetter(column) === value(x) < value(y) ? -1 : 1);
}

// The positions of the best value; none for a single value.
function bestOf(values, lower) {
  const present = values.filter((value) => value !== null);
  const top = lower ? Math.min(...present) : Math.max(...present);
  return present.length < 2 ? [] : values.map((value, i) => (value === top ? i : -1)).filter((i) => i >= 0);
}

// The verdict on a cell: "best", "tied" (not separable from the best) or nothing.
function markOf(m, column) {
  const { best, tied } = BENCHMARKS[column.b].marks[column.i];
  return best.includes(m) ? "best" : tied.includes(m) ? "tied" : "";
}

// Whether the best of a column is separable from all others.
function isAhead(column) {
  return BENCHMARKS[column.b].marks[column.i].ahead;
}

function atChance(m, column) {
  return BENCHMARKS[column.b].marks[column.i].chance.includes(m);
}

function columnKey(column) {
  return `${column.b}/${column.i}`;
}

function columnTitle(column) {
  return `${BENCHMARKS[column.b].label} ${BENCHMARKS[column.b].short[column.i]}`;
}

function columnPercent(column) {
  return BENCHMARKS[column.b].percent[column.i];
}

// A benchmark's name, with what it measures if another one has the same name.
function benchmarkTitle(b) {
  const { label, kind } = BENCHMARKS[b];
  return BENCHMARKS.filter((other) => other.label === label).length > 1 ? `${label} · ${told(kind)}` : label;
}

const METRICS = [...new Set(BENCHMARKS.flatMap((benchmark) => benchmark.metrics))];

// ------------------------------------------------------------------ what is chosen on the page, kept over a reload

// A long list of published models stands in a view of its own; here it would bury one's own rows.
const MANY_PUBLISHED = 12;

function hiddenAtFirst() {
  const published = MODELS.filter((model) => model.origin === "published");
  const few = published.length <= MANY_PUBLISHED || published.length === MODELS.length;
  return few ? [] : published.map((model) => model.label);
}

const STATE = {
  query: "",
  metric: "",
  average: "plain",
  hiddenModels: hiddenAtFirst(),
  hiddenBenchmarks: [],
  sort: { key: "rank", best: true },
  intervals: true,
  costs: !matchMedia("(max-width: 640px)").matches,
  shade: true,
  scatterX: "",
  scatterY: "average",
  theme: "",
  language: DATA.language,
};
const STORE = `eyechart:${DATA.title}`;

function loadState() {
  try {
    Object.assign(STATE, JSON.parse(sessionStorage.getItem(STORE) || "{}"));
  } catch {
    // Storage is off or damaged: the page works without it.
  }
  if (!METRICS.includes(STATE.metric)) STATE.metric = ""; // what another page of this name had
  if (!(STATE.language in LANGUAGES)) STATE.language = DATA.language;
}

function saveState() {
  try {
    sessionStorage.setItem(STORE, JSON.stringify(STATE));
  } catch {
    // The same.
  }
}
