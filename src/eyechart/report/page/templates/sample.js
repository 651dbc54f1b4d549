// One sample: a card in the list, and a dialog with everything that is known of it.

// Images are kept by position in the list; documents, which are not listed, by "/" and their name.
function imageKey(place, name) {
  return place >= 0 ? place : `/${name}`;
}

// An image in a square box, whole and in its own proportions.
function image(chunk, key, size = 72) {
  const source = chunk.samples.thumbnails[key];
  return source ? h("img", { src: source, alt: "", width: size, height: size }) : null;
}

// The largest view there is: the original from the server, else the preview, else the thumbnail.
function largeImage(chunk, key, alt = "") {
  const { thumbnails, previews = {}, originals = {} } = chunk.samples;
  const inside = previews[key] ?? thumbnails[key];
  const original = originals[key] && `image/${originals[key]}`;
  if (!original) return inside ? h("img", { class: "large", src: inside, alt }) : null;
  const failed = () => node.replaceWith(inside ? h("img", { class: "large", src: inside, alt }) : ""); // a format that browsers cannot show
  const node = h("a", { class: "original", href: original, target: "_blank", rel: "noopener", "aria-label": t("Open the original image") }, h("img", { class: "large", src: original, alt, on: { error: failed } }));
  return node;
}

function verdictOf(access, m, i) {
  const ok = access.ok(m, i);
  const wrong = access.share(m, i) > 0 ? t("{n} % right", { n: number(access.share(m, i), 0) }) : t("wrong");
  return h("span", { class: `verdict ${ok === null ? "open" : ok ? "good" : "bad"}` }, ok === null ? t("not judged") : ok ? t("right") : wrong);
}

function sampleCard(view, access, i, found) {
  const { chunk, m } = view;
  const body = CARDS[chunk.form](chunk, access, m, i);
  const open = () => openSample(view, access, i, found);
  return h("article", { class: "card" }, button([image(chunk, i), h("span", { class: "card-text" }, body)], open, { class: "plain" }));
}

const CARDS = {
  label: (chunk, access, m, i) => [
    h("b", {}, data(className(chunk, chunk.samples.label[i]))),
    access.ok(m, i) === null ? h("span", {}, t("not seen")) : access.ok(m, i) ? h("span", { class: "good-text" }, t("recognised")) : h("span", { class: "bad-text" }, tNodes("taken for {prediction}", { prediction: data(className(chunk, access.prediction(m, i))) })),
    h("small", {}, access.ok(m, i) !== null && [t("rank {rank}", { rank: access.rank(m, i) }), " · "], data(shorten(chunk.samples.ids[i], 40))),
  ],
  labels: (chunk, access, m, i) => {
    const own = access.detail(m, i);
    return [
      h("b", {}, classNames(chunk, chunk.samples.labels[i])),
      own && h("span", { class: "bad-text" }, t("top: "), classNames(chunk, own.top.slice(0, 3))),
      h("small", {}, data(shorten(chunk.samples.ids[i], 40))),
    ];
  },
  ranking: retrievalCard,
  question: (chunk, access, m, i) => {
    const question = chunk.samples.questions[i] || {};
    const own = access.detail(m, i) || {};
    return [
      h("b", {}, data(shorten(String(question.question ?? chunk.samples.ids[i]), 160))),
      h("span", { class: { true: "good-text", false: "bad-text" }[access.ok(m, i)] || "" }, data(shorten(String(own.prediction ?? ""), 120))),
      h("small", {}, tNodes("answer {answer} · read as {extracted}", { answer: data(question.answer), extracted: data(own.extracted ?? t("nothing")) })),
    ];
  },
};

// One dialog for the whole list: buttons and arrow keys turn its pages, and the address names the sample.
function openSample(view, access, first, list) {
  const { chunk, m } = view;
  let place = list.indexOf(first);
  let fromButton = false; // then the focus stays on the button
  const turn = (step) => {
    if (place < 0 || !(place + step in list)) return;
    place += step;
    draw(list[place]);
    const again = dialog.querySelector(`[data-step="${step}"]:enabled`);
    (fromButton && again ? again : dialog.querySelector("h2")).focus();
  };
  const step = (label, by, key) => button(label, () => { fromButton = true; turn(by); }, { "data-step": by, "aria-keyshortcuts": key, disabled: place < 0 || !(place + by in list) });
  const draw = (i) => {
    replace(dialog.querySelector("h2"), tNodes("Sample {name}", { name: data(shorten(chunk.samples.ids[i], 120)) }));
    replace(
      dialog.querySelector(".dialog-body"),
      h("div", { class: "toolbar" }, step(t("Previous"), -1, "ArrowLeft"), step(t("Next"), 1, "ArrowRight"), verdictOf(access, m, i), place >= 0 && h("span", { class: "hint" }, t("{place} of {n}", { place: place + 1, n: list.length }))),
      DETAILS[chunk.form](chunk, access, m, i),
      everyModel(view, access, i),
    );
    dialog.scrollTop = 0;
    nameSample(view, chunk.samples.ids[i]);
  };
  const dialog = openDialog("");
  dialog.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by || event.shiftKey || isTyping(event)) return;
    event.preventDefault();
    fromButton = false;
    turn(by);
  });
  dialog.addEventListener("close", () => nameSample(view, null));
  draw(first);
}

// The address of a sample, without a step in the history: a reload opens it again.
function nameSample(view, id) {
  const { name, argument } = route();
  if (name !== "benchmark" || Number(argument) !== view.b || !view.list.section.isConnected) return;
  const params = new URLSearchParams({ model: view.m, ...(id !== null && { id }) });
  history.replaceState(null, "", `#/benchmark/${view.b}?${params}`);
  document.getElementById("main").dataset.view = location.hash;
}

const DETAILS = {
  label: (chunk, access, m, i) => {
    const own = access.detail(m, i);
    return [
      h("div", { class: "sample-head" }, largeImage(chunk, i), h("p", {}, t("True class: "), h("b", {}, data(className(chunk, chunk.samples.label[i]))), h("br"), access.ok(m, i) !== null && t("Its rank: {rank}", { rank: access.rank(m, i) }))),
      own && Array.isArray(own.top) && scoreBars(chunk, own, (label) => label === chunk.samples.label[i]),
    ];
  },
  labels: (chunk, access, m, i) => {
    const own = access.detail(m, i);
    return [
      h("div", { class: "sample-head" }, largeImage(chunk, i), h("p", {}, t("True classes: "), h("b", {}, classNames(chunk, chunk.samples.labels[i])))),
      own && scoreBars(chunk, own, (label) => chunk.samples.labels[i].includes(label)),
    ];
  },
  ranking: retrievalDetails,
  question: (chunk, access, m, i) => {
    const question = chunk.samples.questions[i] || {};
    const own = access.detail(m, i) || {};
    return [
      h("div", { class: "sample-head" }, largeImage(chunk, i), h("p", { class: "long" }, data(question.question))),
      question.options && h("ul", { class: "options" }, Object.entries(question.options).map(([letter, text]) => h("li", { class: letter === String(question.answer) ? "target" : "" }, h("b", {}, data(letter)), " ", data(String(text)), letter === String(question.answer) && h("small", {}, " ", t("the right answer")), letter === String(own.extracted) && h("small", {}, " ", t("chosen"))))),
      transcriptDetails(chunk, m, i, own),
      facts([[t("Right answer"), question.answer], [t("Read as"), own.extracted ?? t("nothing")], [t("Rule that decided"), own.rule], [t("Category"), question.category]]),
    ];
  },
};

function scoreBars(chunk, own, isRight) {
  const scores = Array.isArray(own.scores) ? own.scores : [];
  const top = Math.max(...scores, 1e-9);
  const bottom = Math.min(...scores, top) - 0.2 * (top - Math.min(...scores, top)) - 1e-9;
  return h(
    "ol",
    { class: "bars" },
    own.top.map((label, k) =>
      h("li", { class: isRight(label) ? "target" : "" }, h("span", { class: "bar-name" }, data(className(chunk, label)), isRight(label) && h("small", {}, " ", t("true"))), h("span", { class: "bar-track", "aria-hidden": "true" }, h("span", { class: "bar", style: { width: `${(100 * (scores[k] - bottom)) / (top - bottom)}%` } })), h("span", { class: "bar-value" }, Number.isFinite(scores[k]) ? scores[k].toFixed(4) : "")),
    ),
  );
}

// What all models say of the same sample.
function everyModel(view, access, i) {
  const { chunk } = view;
  const models = chunk.samples.models;
  if (models.length < 2 || chunk.form === "labels") return null;
  if (chunk.form === "question") return answersSideBySide(view, access, i);
  const answer = (m) => {
    if (chunk.form === "label") return data(className(chunk, access.prediction(m, i)));
    return rankText(access, m, i);
  };
  const row = (m) => tableRow(data(MODELS[m].label), [answer(m), verdictOf(access, m, i)], { class: m === view.m ? "chosen" : "" });
  const head = tableHead([t("Model"), t("Answer"), h("span", { class: "offscreen" }, t("Verdict"))]);
  return [h("h3", {}, t("All models on this sample")), h("table", { class: "plain-table" }, head, h("tbody", {}, models.map(row)))];
}
