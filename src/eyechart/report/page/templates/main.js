// Views by the part of the address after #, the menu, the theme.

const VIEWS = [
  ["", "Overview", () => true],
  ["compare", "Compare", () => DATA.pairs > 0],
  ["results", "Results", () => true],
  ["published", "Published", () => DATA.published.length > 0],
];

function go(hash) {
  location.hash = hash;
}

function route() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, argument] = path.split("/");
  return { name, argument, params: new URLSearchParams(query || "") };
}

async function show({ first = false } = {}) {
  const main = document.getElementById("main");
  const { name, argument, params } = route();
  document.querySelectorAll("dialog[open]").forEach((dialog) => dialog.close());
  drawNav(name);
  try {
    if (name === "benchmark" && BENCHMARKS[Number(argument)]) await benchmarkView(main, Number(argument), params);
    else if (name === "compare") await compareView(main, params);
    else if (name === "results") resultsView(main, params);
    else if (name === "published") publishedView(main);
    else overview(main);
  } catch (error) {
    replace(main, h("h1", {}, "This view cannot be shown"), h("p", {}, String(error.message || error)));
    throw error;
  }
  if (!first) {
    main.focus({ preventScroll: true });
    scrollTo(0, 0);
  }
  main.dataset.view = location.hash; // tells whoever drives the page that this view is complete
}

function drawNav(current) {
  const links = VIEWS.filter(([, , there]) => there()).map(([name, label]) =>
    h("a", { href: `#/${name}`, "aria-current": name === current ? "page" : null }, label),
  );
  replace(document.getElementById("nav"), links);
}

// ------------------------------------------------------------------------------------------------ theme

const THEMES = { "": "Auto", light: "Light", dark: "Dark" };

function applyTheme() {
  const dark = STATE.theme ? STATE.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.setAttribute("data-theme", dark ? "dark" : "light");
  document.dispatchEvent(new Event("themechange"));
}

function drawTools() {
  const next = { "": "light", light: "dark", dark: "" }[STATE.theme] ?? "";
  const turn = () => {
    STATE.theme = next;
    saveState();
    applyTheme();
    drawTools();
    document.querySelector("#tools button").focus();
  };
  replace(document.getElementById("tools"), button(`Theme: ${THEMES[STATE.theme] ?? "Auto"}`, turn, { class: "quiet", "aria-label": `Theme: ${THEMES[STATE.theme] ?? "Auto"}, change to ${THEMES[next]}` }));
}

function drawFooter() {
  const made = DATA.made.replace("T", " ").replace("+00:00", " UTC");
  replace(document.getElementById("footer"), h("p", {}, `Made by Eyechart ${DATA.version} on ${made}. This file is complete in itself: it loads nothing and sends nothing.`));
}

loadState();
applyTheme();
drawTools();
drawFooter();
document.getElementById("skip").addEventListener("click", () => document.getElementById("main").focus());
addEventListener("hashchange", () => show());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", applyTheme);
show({ first: true });
startLive();
