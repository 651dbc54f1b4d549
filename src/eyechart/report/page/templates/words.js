// Words in the reader's language. The English text is the key; what has no translation stays English.
// Data (names of models, classes, files) never goes through here.

const WORDS = JSON.parse(document.getElementById("words").textContent);
const LANGUAGES = { en: { code: "en", name: "English", other: "zh" }, zh: { code: "zh-Hans", name: "中文", other: "en" } };

// t("Theme: {name}", { name: "Dark" }): called when a view is drawn, as the language may change.
function t(text, values = {}) {
  return plain(singular(wordsFor(text), values), values);
}

// The noun after a count of 1 is singular: "{n} more benchmarks" is "1 more benchmark".
function singular(text, values) {
  return text.replace(/\{(\w+)\} ((?:more )?)([a-z]+)s\b/g, (all, name, more, noun) => (String(values[name]) === "1" && !NOT_NOUNS.includes(`${noun}s`) ? `{${name}} ${more}${noun}` : all));
}
const NOT_NOUNS = ["is", "has", "was", "does", "as", "its", "this"];

// The same with nodes as values: a list for h().
function tNodes(text, values) {
  return wordsFor(text)
    .split(/(\{\w+\})/)
    .map((part) => (part.startsWith("{") ? (values[part.slice(1, -1)] ?? part) : part));
}

// Marks a text in a table that goes through t() when it is drawn.
function word(text) {
  return text;
}

// In English whatever the reader's language is: for tables that are copied.
function plain(text, values = {}) {
  return text.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}

function wordsFor(text) {
  return (STATE.language === "zh" && WORDS.page[text]) || text;
}

// A sentence that was written when the page was made, values and all: it is known by its shape.
function told(text) {
  if (STATE.language === "en") return text;
  for (const { shape, words } of shapes()) {
    const found = shape.exec(text);
    if (found) return words.replace(/\{(\w+)(\|t)?\}/g, (_, name, deep) => (deep ? told(found.groups[name]) : found.groups[name]));
  }
  return t(text);
}

function toldList(texts) {
  return texts.map(told).join(t(", "));
}

let knownShapes = null;
function shapes() {
  knownShapes ??= Object.entries(WORDS.notes)
    .sort(([a], [b]) => b.replace(/\{\w+\}/g, "").length - a.replace(/\{\w+\}/g, "").length)
    .map(([text, words]) => {
      const parts = text.split(/\{(\w+)\}/).map((part, i) => (i % 2 ? `(?<${part}>.+?)` : part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")));
      return { shape: new RegExp(`^${parts.join("")}$`, "s"), words };
    });
  return knownShapes;
}

function count(value, noun) {
  return t(`{n} ${noun}s`, { n: value.toLocaleString("en") });
}

// The title that a page has by default is ours; any other is data.
function pageTitle() {
  const ours = word("Eyechart report");
  return DATA.title === ours ? t(ours) : DATA.title;
}

function applyLanguage() {
  document.documentElement.lang = LANGUAGES[STATE.language].code;
  document.title = pageTitle();
  document.getElementById("skip").textContent = t("Skip to the content");
  document.getElementById("nav").setAttribute("aria-label", t("Views"));
}
