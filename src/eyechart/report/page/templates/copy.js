// Tables as text; the same formats as eyechart.report.table_formats, and a test compares the two.

const oneLine = (text) => text.split(/\s+/).filter(Boolean).join(" ");
const markdownEscape = (text) =>
  oneLine(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll("\\", "\\\\").replaceAll("|", "\\|");
const LATEX = { "\\": "\\textbackslash{}", "→": "$\\to$", "↓": "$\\downarrow$", "±": "$\\pm$", "^": "\\textasciicircum{}", "~": "\\textasciitilde{}" };
for (const character of "&%$#_{}") LATEX[character] = `\\${character}`;
const latexEscape = (text) => [...oneLine(text)].map((character) => LATEX[character] ?? character).join("");

// What a spreadsheet would compute is marked as a text; a number is none of that.
const guarded = (text) =>
  /^'*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]/.test(text) && !/^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/.test(text) ? `'${text}` : text;

// A grid is {header, rows, best and tied: Sets of "row/column", heads: [benchmark, metric] of each column, note}; the
// first column is text.
const realMinus = (text, c) => (c ? text.replace(/(?<![\w.])-(?=\.?\d)/g, "\u2212") : text);
const emphasised = (grid, r, c, [best, tied]) => (grid.best.has(`${r}/${c}`) ? best : grid.tied?.has(`${r}/${c}`) ? tied : (text) => text);
function latexGroups(heads) {
  const groups = [];
  heads.forEach(([name], c) => (c && groups.at(-1).name === name ? groups.at(-1).size++ : groups.push({ name, size: 1, start: c + 1 })));
  const cells = groups.flatMap(({ name, size }) => (name ? [`\\multicolumn{${size}}{c}{${latexEscape(name)}}`] : Array(size).fill("")));
  const rules = groups.filter(({ name }) => name).map(({ size, start }) => `\\cmidrule(lr){${start}-${start + size - 1}}`);
  return rules.length ? [`${cells.join(" & ")} \\\\`, rules.join(" ")] : [];
}
const FORMATS = {
  Markdown: (grid) => {
    const forms = [(text) => `**${text}**`, (text) => `<ins>${text}</ins>`];
    const rows = grid.rows.map((row, r) => row.map((text, c) => emphasised(grid, r, c, forms)(realMinus(markdownEscape(text), c))));
    const rule = grid.header.map((_, c) => (c === 0 ? "---" : "---:"));
    const lines = [grid.header.map(markdownEscape), rule, ...rows].map((row) => `| ${row.join(" | ")} |\n`);
    return lines.join("") + (grid.note ? `\n${markdownEscape(grid.note)}\n` : "");
  },
  LaTeX: (grid) => {
    const forms = [(text) => `\\mathbf{${text}}`, (text) => `\\underline{${text}}`];
    const cell = (text, r, c) => (c && /^[-+]?[\d.,]+$/.test(text) ? `$${emphasised(grid, r, c, forms)(text)}$` : latexEscape(text));
    return `${[
      "% needs \\usepackage{booktabs}",
      ...(grid.note ? [`% ${oneLine(grid.note)}`] : []),
      "\\begin{table}",
      "\\centering",
      "\\label{tab:eyechart}",
      `\\begin{tabular}{l${"r".repeat(grid.header.length - 1)}}`,
      "\\toprule",
      ...latexGroups(grid.heads || []),
      `${(grid.heads ? grid.heads.map(([, metric]) => metric) : grid.header).map(latexEscape).join(" & ")} \\\\`,
      "\\midrule",
      ...grid.rows.map((row, r) => `${row.map((text, c) => cell(text, r, c)).join(" & ")} \\\\`),
      "\\bottomrule",
      "\\end{tabular}",
      "\\end{table}",
    ].join("\n")}\n`;
  },
  CSV: (grid) => {
    const quote = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
    return [grid.header, ...grid.rows].map((row) => `${row.map((text) => quote(guarded(text))).join(",")}\n`).join("");
  },
};

async function copyText(text, what) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Pages opened from disk may not use the clipboard: the old way still works there.
    const area = h("textarea", { class: "offscreen", "aria-hidden": "true", value: text });
    (document.querySelector("dialog[open]") || document.body).append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  announce(t("{what} copied", { what }));
}

function copyMenu(makeGrid) {
  return h(
    "div",
    { class: "copy", role: "group", "aria-label": t("Copy the table") },
    h("span", { class: "hint", "aria-hidden": "true" }, t("Copy")),
    Object.keys(FORMATS).map((name) =>
      button(name, () => copyText(FORMATS[name](makeGrid()), name), { class: "quiet", "aria-label": t("Copy as {name}", { name }) }),
    ),
  );
}
