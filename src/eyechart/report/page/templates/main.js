// Views by the part of the address after #, the menu, the theme, the language.

const VIEWS = [
  ["", word("Overview"), () => !onlyPublished()],
  ["compare", word("Compare"), () => DATA.pairs > 0],
  ["results", word("Results"), () => !onlyPublished()],
  ["published", word("Published"), () => DATA.published.length > 0],
];

// Long published tables and nothing of one's own: there is one view.
function onlyPublished() {
  return !DATA.results.length && DATA.published.length > 0;
}

function go(hash) {
  location.hash = hash;
}

function route() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, argument] = path.split("/");
  return { name, argument, params: new URLSearchParams(query || "") };
}

let turns = 0; // views chosen so far: a view that waited for data draws only if it is still the last one

// What a view must have before it can be drawn, all at once; most have it already.
const NEEDS = {
  __proto__: null, // an address may name anything
  benchmark: (argument) => BENCHMARKS[Number(argument)] && chunkOf(Number(argument)),
  compare: () => unpack("pairs"),
};

async function show({ first = false } = {}) {
  const main = document.getElementById("main");
  const { name, argument, params } = route();
  turns += 1;
  const turn = turns;
  delete main.dataset.view;
  document.querySelectorAll("dialog[open]").forEach((dialog) => dialog.close());
  drawNav(name);
  try {
    const needed = await NEEDS[name]?.(argument);
    if (turn !== turns) return;
    if (name === "benchmark" && needed) benchmarkView(main, Number(argument), params, needed);
    else if (name === "compare") compareView(main, params, needed);
    else if (name === "results") resultsView(main, params);
    else if (name === "published" || onlyPublished()) await publishedView(main);
    else overview(main);
  } catch (error) {
    if (turn !== turns) return;
    replace(main, h("h1", {}, t("This view cannot be shown")), h("p", {}, String(error.message || error)));
    throw error;
  }
  if (!first) {
    main.focus({ preventScroll: true });
    scrollTo(0, 0);
  }
  main.dataset.view = location.hash; // tells scripts that drive the page that this view is complete
}

function drawNav(current) {
  const links = VIEWS.filter(([, , there]) => there()).map(([name, label]) =>
    h("a", { href: `#/${name}`, "aria-current": name === current ? "page" : null }, t(label)),
  );
  replace(document.getElementById("nav"), links);
}

// ---------------------------------------------------------------------------------------- theme, language

const THEMES = { "": word("Auto"), light: word("Light"), dark: word("Dark") };

function applyTheme() {
  const dark = STATE.theme ? STATE.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.setAttribute("data-theme", dark ? "dark" : "light");
  document.dispatchEvent(new Event("themechange"));
}

function drawTools() {
  replace(document.getElementById("tools"), themeButton(), languageButton());
}

function themeButton() {
  const next = { "": "light", light: "dark", dark: "" }[STATE.theme] ?? "";
  const name = t(THEMES[STATE.theme] ?? THEMES[""]);
  const turn = () => {
    STATE.theme = next;
    saveState();
    applyTheme();
    drawTools();
    document.querySelector("#tools button").focus();
  };
  return button(t("Theme: {name}", { name }), turn, { class: "quiet", "aria-label": t("Theme: {name}, change to {next}", { name, next: t(THEMES[next]) }) });
}

// It says the other language's name, in that language.
function languageButton() {
  const other = LANGUAGES[LANGUAGES[STATE.language].other];
  const turn = () => {
    STATE.language = LANGUAGES[STATE.language].other;
    saveState();
    drawFrame();
    show({ first: true });
    document.querySelector("#tools button:last-child").focus();
  };
  return button(other.name, turn, { class: "quiet", lang: other.code });
}

// What stands around every view.
function drawFrame() {
  applyLanguage();
  drawTools();
  const made = DATA.made.replace("T", " ").replace("+00:00", " UTC");
  replace(document.getElementById("footer"), h("p", {}, t("Made by Eyechart {version} on {date}. This file is self-contained: it loads nothing and sends nothing.", { version: DATA.version, date: made })));
}

// While a run is going on: ask the server that sent this page how far it is, and reload when there are new results.

const LIVE_EVERY = 1500;

function startLive() {
  if (!DATA.live) return;
  const target = document.getElementById("live");
  let version = null;
  const ask = async () => {
    try {
      const answer = await fetch("status.json", { cache: "no-store" });
      const status = await answer.json();
      replace(target, status.runs.map(liveRun));
      if (version !== null && status.version !== version) return location.reload();
      version = status.version;
    } catch {
      replace(target, h("p", { class: "live-line" }, t("The server does not respond; this page shows the last known state.")));
    }
    return setTimeout(ask, LIVE_EVERY);
  };
  ask();
}

function liveRun(run) {
  const { step } = run;
  const rate = step && step.rate > 0 ? `${compact(step.rate)}/s` : "";
  const left = step && step.total && step.rate > 0 ? t("{time} left", { time: duration((step.total - step.done) / step.rate) }) : "";
  const jobs = run.jobs ? t("{done} of {total} results", run.jobs) : "";
  const parts = [jobs, step && `${told(step.name)}${step.total ? ` ${step.done.toLocaleString("en")}/${step.total.toLocaleString("en")}` : ` ${step.done.toLocaleString("en")}`}`, rate, left].filter(Boolean);
  const share = step && step.total ? step.done / step.total : 0;
  return h(
    "div",
    { class: `live-line ${run.state}` },
    h("span", { class: "live-state" }, t({ running: word("Running"), done: word("Finished"), stalled: word("No news") }[run.state] || run.state)),
    h("span", {}, data(parts.join(" · "))),
    run.state === "running" && h("progress", { max: "1", value: share, "aria-label": t("Progress of the step") }),
  );
}

loadState();
applyTheme();
drawFrame();
document.getElementById("skip").addEventListener("click", () => document.getElementById("main").focus());
addEventListener("hashchange", () => show());
addEventListener("keydown", (event) => {
  if (event.key !== "/" || isTyping(event) || document.querySelector("dialog[open]")) return;
  const box = document.querySelector("main .samples input[type=search]") ?? document.querySelector("main input[type=search]");
  if (box) event.preventDefault();
  box?.focus();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", applyTheme);
show({ first: true });
startLive();
