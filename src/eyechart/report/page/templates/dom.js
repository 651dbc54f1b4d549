// Nodes are made here and nowhere else. Data only ever becomes text: there is no innerHTML in this program.

const SVG_NS = "http://www.w3.org/2000/svg";

function fill(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

function set(node, props) {
  for (const [key, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "on") {
      for (const [name, listener] of Object.entries(value)) node.addEventListener(name, listener);
    } else if (key === "style") {
      for (const [name, text] of Object.entries(value)) node.style.setProperty(name, text);
    } else if (key === "value" || key === "checked") {
      node[key] = value;
    } else {
      if (key.startsWith("on")) throw new Error(`${key} is not an attribute`);
      if (key === "href" && !/^#|^image\/[0-9a-f]{32}$/.test(value)) throw new Error("links stay inside the page");
      if (key === "src" && !/^data:image\/|^image\/[0-9a-f]{32}$/.test(value)) throw new Error("images are inside the page");
      node.setAttribute(key, value === true ? "" : String(value));
    }
  }
  return node;
}

function h(tag, props = {}, ...children) {
  return fill(set(document.createElement(tag), props), children);
}

function svg(tag, props = {}, ...children) {
  return fill(set(document.createElementNS(SVG_NS, tag), props), children);
}

// Text from outside, kept from turning its surroundings round (right-to-left marks).
function data(text, props = {}) {
  return h("bdi", props, text === "" || text === null || text === undefined ? "–" : text);
}

function replace(node, ...children) {
  node.replaceChildren();
  return fill(node, children);
}

function button(label, onclick, props = {}) {
  return h("button", { type: "button", ...props, on: { click: onclick } }, label);
}

// What may be wider than the screen: a region that scrolls.
function scrollable(label, ...children) {
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, children);
}

function tableHead(cells) {
  return h("thead", {}, h("tr", {}, cells.map((cell) => h("th", { scope: "col" }, cell))));
}

function plainTable(label, heads, rows) {
  return scrollable(label, h("table", { class: "plain-table numbers" }, tableHead(heads), h("tbody", {}, rows)));
}

function tableRow(name, cells, props = {}) {
  return h("tr", props, h("th", { scope: "row" }, name), cells.map((cell) => h("td", {}, cell)));
}

let counter = 0;
function uid(prefix) {
  counter += 1;
  return `${prefix}-${counter}`;
}

// A labelled <select>. Options are [value, text] pairs.
function select(label, options, value, onchange) {
  const option = ([key, text]) => h("option", { value: key, selected: String(key) === String(value) }, text);
  const control = h("select", { id: uid("field"), on: { change: (event) => onchange(event.target.value) } }, options.map(option));
  return h("div", { class: "field" }, h("label", { for: control.id }, label), control);
}

function checkbox(label, checked, onchange) {
  const box = h("input", { type: "checkbox", checked, on: { change: (event) => onchange(event.target.checked) } });
  return h("label", { class: "check" }, box, h("span", {}, label));
}

function search(label, value, onchange) {
  let timer = 0;
  const later = (event) => {
    clearTimeout(timer);
    timer = setTimeout(() => onchange(event.target.value), 120);
  };
  const box = h("input", { type: "search", value, id: uid("field"), on: { input: later } });
  return h("div", { class: "field search" }, h("label", { for: box.id }, label), box);
}

function openDialog(title, ...content) {
  const heading = h("h2", { id: uid("dialog"), tabindex: "-1" }, title);
  const close = button(t("Close"), () => node.close(), { class: "quiet" });
  const node = h(
    "dialog",
    { "aria-labelledby": heading.id, on: { close: () => node.remove(), click: (e) => e.target === node && node.close() } },
    h("div", { class: "dialog-head" }, heading, close),
    h("div", { class: "dialog-body", tabindex: "0", role: "region", "aria-label": t("Details") }, content),
  );
  document.body.append(node);
  node.showModal();
  heading.focus();
  return node;
}

// Save a text as a file.
function saveText(text, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// Whether a key that was pressed belongs to a field.
function isTyping(event) {
  return event.altKey || event.ctrlKey || event.metaKey || event.target.closest?.("input, select, textarea") !== null;
}

function announce(text) {
  const node = h("div", { class: "toast", role: "status" }, text);
  document.body.append(node);
  setTimeout(() => node.remove(), 2500);
}
