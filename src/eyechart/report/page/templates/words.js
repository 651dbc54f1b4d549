// Words in the reader's language. The English text is the key; what has no translation stays English.
// Data (names of models, classes, files) never goes through t().

const WORDS = JSON.parse(document.getElementById("words").textContent);
const LANGUAGES = { en: { code: "en", name: "English", other: "zh" }, zh: { code: "zh-Hans", name: "中文", other: "en" } };

// t("Theme: {name}", { name: "Dark" }): called when a view is drawn, as the language may change.
function t(text, values = {}) {
  return wordsFor(text).replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}

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

function wordsFor(text) {
  return (STATE.language === "zh" && WORDS[text]) || text;
}

function count(value, noun) {
  if (value === 1 && STATE.language === "en") return `1 ${noun}`;
  return t(`{n} ${noun}s`, { n: value.toLocaleString("en") });
}

function applyLanguage() {
  document.documentElement.lang = LANGUAGES[STATE.language].code;
  document.getElementById("skip").textContent = t("Skip to the content");
  document.getElementById("nav").setAttribute("aria-label", t("Views"));
}
