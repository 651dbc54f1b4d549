// Averages over the rows and columns shown; the same rules as eyechart.report.averages, and a test compares the two.

const SCALES = {
  rank: (values) => {
    const present = values.filter((value) => value !== null);
    const rank = (value) => {
      const above = present.filter((other) => other > value).length;
      const equal = present.filter((other) => other === value).length;
      return above + (equal + 1) / 2;
    };
    return values.map((value) => (value === null ? null : rank(value)));
  },
  chance: (values, chance) =>
    values.map((value) => (value === null || chance === null || chance >= 1 ? null : (value - chance) / (1 - chance))),
};

function meanOf(values, strict = false) {
  const present = values.filter((value) => value !== null);
  if (!present.length || (strict && present.length < values.length)) return null;
  return present.reduce((sum, value) => sum + value, 0) / present.length;
}

function averageOf(models, columns, how) {
  const groups = new Map();
  for (const column of columns) {
    const values = models.map((m) => valueAt(m, column));
    const chance = BENCHMARKS[column.b].chance[column.i];
    const scale = SCALES[how] || ((row) => (isFraction(row) ? row : row.map(() => null)));
    if (!groups.has(column.b)) groups.set(column.b, []);
    groups.get(column.b).push(scale(values, chance));
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
  return { values, used, leftOut, common: complete.length > 0, note: averageNote(how, used, leftOut, complete.length > 0) };
}

function averageNote(how, used, leftOut, common) {
  const { heading, how: made } = DATA.averages.find((part) => part.key === how);
  const text = `${heading}: ${made}`;
  if (!common) return `${text}. No benchmark has all models: each model's own are averaged, so compare with care.`;
  const left = leftOut.map((b) => BENCHMARKS[b].label).join(", ");
  const missing = left ? `; left out, as not every model has a usable value: ${left}` : "";
  return `${text}, over ${used.length} that every model has${missing}.`;
}
