// The list of samples: filter, search, page. What a sample looks like is in sample.js.

const PAGE = 24;

// What the forms of samples have in common: is it right, what to search, how bad.
function sampleAccess(chunk) {
  const { samples } = chunk;
  const rank = (m, i) => (samples.rank && samples.rank[m] ? samples.rank[m][i] : -1);
  const detail = (m, i) => (samples.details && samples.details[m] && samples.details[m][i]) || null;
  const text = (i) => {
    const question = samples.questions && samples.questions[i];
    const parts = [samples.ids[i]];
    if (samples.label) parts.push(className(chunk, samples.label[i]));
    if (samples.labels) parts.push(...samples.labels[i].map((label) => className(chunk, label)));
    if (samples.texts && samples.texts[i]) parts.push(samples.texts[i]);
    if (question) parts.push(question.question, question.category, ...Object.values(question.options || {}), ...answerTexts(samples, i));
    return parts.filter(Boolean).join("\n");
  };
  const share = (m, i) => (samples.correct && samples.correct[m] ? samples.correct[m][i] : null);
  const ok = (m, i) => {
    if (samples.correct) return share(m, i) === null ? null : share(m, i) >= 1;
    if (samples.labels) return detail(m, i) === null;
    return rank(m, i) === -1 && chunk.form !== "ranking" ? null : rank(m, i) === 1;
  };
  const badness = (m, i) => {
    const own = detail(m, i);
    if (samples.label && own && own.scores) return 1e6 + 1e6 * (own.scores[0] - (own.label_score || 0));
    if (samples.correct) return -share(m, i);
    return rank(m, i) < 0 ? Infinity : rank(m, i);
  };
  const prediction = (m, i) => {
    if (rank(m, i) < 0) return null; // it has not seen this sample
    return samples.prediction[m][i] === -1 ? samples.label[i] : samples.prediction[m][i];
  };
  return { count: samples.ids.length, rank, detail, text, share, ok, badness, prediction };
}

function samplesSection(view) {
  const { chunk } = view;
  if (!chunk.samples || !chunk.samples.models.includes(view.m)) return null;
  const access = sampleAccess(chunk);
  const state = { show: "wrong", query: "", other: "", cell: null, direction: "", page: 0 };
  const list = h("div", { class: "cards" });
  const summary = h("p", { class: "note", role: "status" });
  const pager = h("div", { class: "pager" });
  const cellNote = h("p", { class: "cell-note" });
  const draw = () => {
    const found = filterSamples(view, access, state);
    const pages = Math.max(1, Math.ceil(found.length / PAGE));
    state.page = clamp(state.page, 0, pages - 1);
    const shown = found.slice(state.page * PAGE, (state.page + 1) * PAGE);
    replace(list, shown.map((i) => sampleCard(view, access, i, found)));
    replace(summary, samplesNote(chunk, found.length));
    replace(cellNote, state.cell && cellText(chunk, state.cell), state.cell && button(t("Clear"), () => { state.cell = null; draw(); }, { class: "quiet" }));
    const turn = (step) => () => { state.page += step; draw(); list.scrollIntoView({ block: "nearest" }); };
    replace(
      pager,
      pages > 1 && [
        button(t("Previous"), turn(-1), { disabled: state.page === 0 }),
        h("span", {}, t("Page {page} of {pages}", { page: state.page + 1, pages })),
        button(t("Next"), turn(1), { disabled: state.page === pages - 1 }),
      ],
    );
  };
  const open = (i) => {
    if (!(i in chunk.samples.ids)) return announce(t("The page does not list this sample."));
    const found = filterSamples(view, access, state);
    openSample(view, access, i, found.includes(i) ? found : filterSamples(view, access, { ...state, show: "all" }));
  };
  const openNamed = (params) => {
    if (params.has("id")) open(chunk.samples.ids.indexOf(params.get("id")));
    else if (params.has("sample")) open(Number(params.get("sample")));
  };
  view.list = { state, draw, section: null, open, openNamed };
  const others = chunk.samples.models.filter((m) => m !== view.m);
  const update = (values) => { Object.assign(state, values, { page: 0 }); draw(); };
  const section = h(
    "section",
    { class: "samples" },
    h("h2", { tabindex: "-1" }, t("Samples")),
    h(
      "div",
      { class: "toolbar" },
      search(t("Search samples"), "", (query) => update({ query })),
      select(t("Show"), sampleFilters(chunk, others), state.show, (show) => update({ show })),
      chunk.form === "ranking" && select(t("Query"), [["", t("texts and images")], ["text", t("texts")], ["image", t("images")]], "", (direction) => update({ direction })),
      button(t("Save as CSV"), () => saveText(FORMATS.CSV(samplesGrid(view, access, filterSamples(view, access, state))), "samples.csv"), { class: "quiet" }),
      others.length > 0 && select(t("Against"), [["", t("no other model")], ...others.map((m) => [m, MODELS[m].label])], "", (other) => update({ other })),
    ),
    cellNote,
    summary,
    list,
    pager,
  );
  view.list.section = section;
  draw();
  return section;
}

// What is known of the listed samples, for a spreadsheet; in English, as all tables that leave the page.
function samplesGrid(view, access, found) {
  const { chunk, m } = view;
  const { samples } = chunk;
  const verdict = (i) => ({ true: "right", false: "wrong" })[access.ok(m, i)] ?? "not judged";
  const names = (labels) => (labels || []).map((label) => className(chunk, label)).join("; ");
  const top = (i) => access.detail(m, i)?.top ?? [];
  const question = (i) => samples.questions[i] || {};
  const own = (i) => access.detail(m, i) || {};
  const columns = {
    label: { label: (i) => className(chunk, samples.label[i]), prediction: (i) => className(chunk, access.prediction(m, i)), rank: (i) => access.rank(m, i) },
    labels: { labels: (i) => names(samples.labels[i]), top: (i) => names(top(i)) },
    ranking: { query: (i) => (samples.from_text[i] === 1 ? "text" : "image"), text: (i) => samples.texts[i], rank: (i) => access.rank(m, i), top: (i) => (own(i).names || []).join("; "), scores: (i) => (own(i).scores || []).join("; ") },
    question: { question: (i) => question(i).question, answer: (i) => question(i).answer, prediction: (i) => own(i).prediction, extracted: (i) => own(i).extracted, category: (i) => question(i).category },
  }[chunk.form];
  const cell = (value) => (value === null || value === undefined || value === -1 ? "" : String(value));
  const rows = found.map((i) => [samples.ids[i], verdict(i), ...Object.values(columns).map((column) => cell(column(i)))]);
  return { header: ["id", "verdict", ...Object.keys(columns)], rows };
}

function sampleFilters(chunk, others) {
  const found = [["wrong", t("mistakes")], ["all", t("everything")]];
  if (chunk.form !== "labels") found.push(["right", t("right answers")]);
  if (chunk.form === "question") found.push(["unjudged", t("answers that could not be read")]);
  if (others.length) found.push(["everyone", t("what every model gets wrong")], ["alone", t("what only this model gets wrong")], ["flipped", t("right or wrong depending on the model")]);
  return found;
}

const SHOWS = {
  all: () => true,
  wrong: (ok) => ok === false,
  right: (ok) => ok === true,
  unjudged: (ok, others, own) => ok === null || isUnread(own()),
  flipped: (ok, others) => ok !== null && others().some((other) => other !== null && other !== ok),
  everyone: (ok, others) => ok === false && others().every((other) => other !== true),
  alone: (ok, others) => ok === false && others().every((other) => other === true),
};

function filterSamples(view, access, state) {
  const { chunk, m } = view;
  const words = wordsOf(state.query);
  const others = chunk.samples.models.filter((other) => other !== m);
  const found = [];
  for (let i = 0; i < access.count; i += 1) {
    const ok = access.ok(m, i);
    if (!SHOWS[state.show](ok, () => others.map((other) => access.ok(other, i)), () => access.detail(m, i))) continue;
    if (state.other !== "" && access.ok(Number(state.other), i) === ok) continue;
    if (state.direction && (state.direction === "text") !== (chunk.samples.from_text[i] === 1)) continue;
    if (state.cell && !(chunk.samples.label[i] === state.cell.label && (state.cell.prediction === null || access.prediction(m, i) === state.cell.prediction))) continue;
    if (words.length) {
      const text = access.text(i).toLowerCase();
      if (!words.every((word) => text.includes(word))) continue;
    }
    found.push(i);
  }
  if (state.show !== "all" && state.show !== "right") {
    const badness = new Map(found.map((i) => [i, Math.min(access.badness(m, i), 1e12)]));
    found.sort((a, b) => badness.get(b) - badness.get(a) || a - b);
  }
  return found;
}

function samplesNote(chunk, found) {
  const { samples } = chunk;
  const parts = [
    t("{count}.", { count: count(found, "sample") }),
    chunk.form === "labels" && t("For multi-label data, the worst mistakes are listed."),
    samples.total > samples.ids.length && t("The page lists the {n} most missed of {total} samples; all numbers are over all samples.", { n: samples.ids.length.toLocaleString("en"), total: samples.total.toLocaleString("en") }),
    samples.fewer_images && t("Some images are small or missing to limit the size of the page."),
  ];
  return parts.filter(Boolean).join(" ");
}

function cellText(chunk, cell) {
  const label = data(className(chunk, cell.label));
  if (cell.prediction === null) return tNodes("Class {label}. ", { label });
  if (cell.label === cell.prediction) return tNodes("{label} recognised. ", { label });
  return tNodes("{label} taken for {prediction}. ", { label, prediction: data(className(chunk, cell.prediction)) });
}

// Show the samples of one cell of the confusion matrix, or of one class.
function showCell(view, label, prediction) {
  if (!view.list) return;
  Object.assign(view.list.state, { cell: { label, prediction }, show: "all", page: 0, query: "", other: "" });
  view.list.draw();
  view.list.section.querySelectorAll("select")[0].value = "all";
  view.list.section.scrollIntoView({ behavior: "smooth", block: "start" });
  view.list.section.querySelector("h2").focus({ preventScroll: true });
}
