// One sample: a card in the list, and a dialog with everything that is known of it.

function image(chunk, i, size = 72) {
  const source = chunk.samples.thumbnails[i];
  return source ? h("img", { src: source, alt: "", width: size, height: size }) : null;
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

function openSample(view, access, i, list) {
  const { chunk, m } = view;
  const place = list.indexOf(i);
  const go_to = (step) => () => {
    dialog.close();
    openSample(view, access, list[place + step], list);
  };
  const dialog = openDialog(
    tNodes("Sample {name}", { name: data(shorten(chunk.samples.ids[i], 120)) }),
    h("div", { class: "toolbar" }, button(t("Previous"), go_to(-1), { disabled: place <= 0 }), button(t("Next"), go_to(1), { disabled: place < 0 || place >= list.length - 1 }), verdictOf(access, m, i)),
    DETAILS[chunk.form](chunk, access, m, i),
    everyModel(view, access, i),
  );
}

const DETAILS = {
  label: (chunk, access, m, i) => {
    const own = access.detail(m, i);
    return [
      h("div", { class: "sample-head" }, image(chunk, i, 144), h("p", {}, t("True class: "), h("b", {}, data(className(chunk, chunk.samples.label[i]))), h("br"), access.ok(m, i) !== null && t("Its rank: {rank}", { rank: access.rank(m, i) }))),
      own && Array.isArray(own.top) && scoreBars(chunk, own, (label) => label === chunk.samples.label[i]),
    ];
  },
  labels: (chunk, access, m, i) => {
    const own = access.detail(m, i);
    return [
      h("div", { class: "sample-head" }, image(chunk, i, 144), h("p", {}, t("True classes: "), h("b", {}, classNames(chunk, chunk.samples.labels[i])))),
      own && scoreBars(chunk, own, (label) => chunk.samples.labels[i].includes(label)),
    ];
  },
  ranking: retrievalDetails,
  question: (chunk, access, m, i) => {
    const question = chunk.samples.questions[i] || {};
    const own = access.detail(m, i) || {};
    return [
      h("div", { class: "sample-head" }, image(chunk, i, 144), h("p", { class: "long" }, data(question.question))),
      question.options && h("ul", { class: "options" }, Object.entries(question.options).map(([letter, text]) => h("li", { class: letter === String(question.answer) ? "target" : "" }, h("b", {}, data(letter)), " ", data(String(text)), letter === String(question.answer) && h("small", {}, " ", t("the right answer")), letter === String(own.extracted) && h("small", {}, " ", t("chosen"))))),
      h("h3", {}, t("Answer")),
      h("p", { class: "long answer" }, data(String(own.prediction ?? ""))),
      own.thinking && h("details", {}, h("summary", {}, t("Reasoning")), h("p", { class: "long" }, data(String(own.thinking)))),
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
  const answer = (m) => {
    if (chunk.form === "label") return data(className(chunk, access.prediction(m, i)));
    if (chunk.form === "question") return data(shorten(String((access.detail(m, i) || {}).prediction ?? ""), 200));
    return rankText(access, m, i);
  };
  const row = (m) => tableRow(data(MODELS[m].label), [answer(m), verdictOf(access, m, i)], { class: m === view.m ? "chosen" : "" });
  const head = tableHead([t("Model"), t("Answer"), h("span", { class: "offscreen" }, t("Verdict"))]);
  return [h("h3", {}, t("All models on this sample")), h("table", { class: "plain-table" }, head, h("tbody", {}, models.map(row)))];
}
