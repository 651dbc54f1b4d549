// Averages over the rows and columns shown; the same rules as eyechart.report.table_formats, and a test compares the two.

const SCALES = {
  rank: (values, percent, chance, lower) => {
    const present = values.filter((value) => value !== null);
    const rank = (value) => {
      const before = present.filter((other) => (lower ? other < value : other > value)).length;
      const equal = present.filter((other) => other === value).length;
      return before + (equal + 1) / 2;
    };
    return values.map((value) => (value === null ? null : rank(value)));
  },
  chance: (values, percent, chance, lower) => {
    const turned = (value) => (value === null || !lower ? value : 1 - value);
    const level = turned(chance);
    const usable = percent && level !== null && level >= 0 && level < 1;
    return values.map((value) => (value === null || !usable ? null : (turned(value) - level) / (1 - level)));
  },
};

function meanOf(values, strict = false) {
  const present = values.filter((value) => value !== null);
  if (!present.length || (strict && present.length < values.length)) return null;
  return present.reduce((sum, value) => sum + value, 0) / present.length;
}

function averageOf(models, columns, how) {
  const groups = new Map();
  // Only fractions are averaged. Numbers of which less is better are averaged with each other, but never with others.
  const lower = { rank: true, chance: false }[how] ?? (columns.length > 0 && columns.every(lowerIsBetter));
  for (const column of columns) {
    const values = models.map((m) => valueAt(m, column));
    const chance = BENCHMARKS[column.b].chance[column.i];
    const own = lowerIsBetter(column);
    const scale = SCALES[how] || ((row, percent) => (percent && own === lower ? row : row.map(() => null)));
    if (!groups.has(column.b)) groups.set(column.b, []);
    groups.get(column.b).push(scale(values, columnPercent(column), chance, own));
  }
  const means = new Map([...groups].map(([b, rows]) => [b, models.map((_, j) => meanOf(rows.map((row) => row[j]), true))]));
  const complete = [...means.keys()].filter((b) => means.get(b).every((value) => value !== null));
  const used = complete.length ? complete : [...means.keys()];
  const values = models.map((_, j) => {
    const own = used.filter((b) => means.get(b)[j] !== null);
    if (how !== "kind") return meanOf(own.map((b) => means.get(b)[j]));
    const kinds = [...new Set(own.map((b) => BENCHMARKS[b].kind))];
    return meanOf(kinds.map((kind) => meanOf(own.filter((b) => BENCHMARKS[b].kind === kind).map((b) => means.get(b)[j]))));
  });
  const leftOut = [...means.keys()].filter((b) => !used.includes(b));
  return { values, used, leftOut, lower, common: complete.length > 0 };
}

// What guessing would have as its average.
function chanceOf(columns, { used }) {
  if (STATE.average !== "plain") return STATE.average === "chance" ? 0 : null;
  const own = (b) => columns.filter((column) => column.b === b).map((column) => BENCHMARKS[b].chance[column.i]);
  return meanOf(used.map((b) => meanOf(own(b), true)), true);
}

function averageKind(how) {
  return DATA.averages.find(({ key }) => key === how);
}

// Said on the page in the reader's language, in a copied table as `eyechart build` says it.
function averageNote(how, { values, used, leftOut, common }, say) {
  const part = averageKind(how);
  const known = { heading: say(part.heading), how: say(part.how), n: used.length, left: leftOut.map((b) => BENCHMARKS[b].label).join(", ") };
  if (values.every((value) => value === null)) return say("{heading}: {how}. There is none: only fractions are averaged, and for chance only where that is known.", known);
  if (!common) return say("{heading}: {how}. No benchmark has all models: each model's own are averaged, so compare with care.", known);
  if (!known.left) return say("{heading}: {how}, over {n} benchmarks that every model has.", known);
  return say("{heading}: {how}, over {n} benchmarks that every model has; left out, as not every model has a usable value: {left}.", known);
}
