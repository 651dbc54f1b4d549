// One sample: a card in the list, and a dialog with everything that is known of it.

function image(chunk, i, size = 72) {
  const source = chunk.samples.thumbnails[i];
  return source ? h("img", { src: source, alt: "", width: size, height: size }) : null;
}

function verdictOf(access, m, i) {
  const ok = access.ok(m, i);
  const wrong = access.share(m, i) > 0 ? `${number(access.share(m, i), 0)} % right` : "wrong";
  return h("span", { class: `verdict ${ok === null ? "open" : ok ? "good" : "bad"}` }, ok === null ? "not judged" : ok ? "right" : wrong);
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
    access.ok(m, i) === null ? h("span", {}, "not seen") : access.ok(m, i) ? h("span", { class: "good-text" }, "recognised") : h("span", { class: "bad-text" }, "taken for ", data(className(chunk, access.prediction(m, i)))),
    h("small", {}, access.ok(m, i) !== null && `rank ${access.rank(m, i)} · `, data(shorten(chunk.samples.ids[i], 40))),
  ],
  labels: (chunk, access, m, i) => {
    const own = access.detail(m, i);
    return [
      h("b", {}, chunk.samples.labels[i].map((label, k) => [k > 0 && ", ", data(className(chunk, label))])),
      own && h("span", { class: "bad-text" }, "top: ", own.top.slice(0, 3).map((label, k) => [k > 0 && ", ", data(className(chunk, label))])),
      h("small", {}, data(shorten(chunk.samples.ids[i], 40))),
    ];
  },
  ranking: (chunk, access, m, i) => {
    const own = access.detail(m, i);
    const fromText = chunk.samples.from_text[i] === 1;
    return [
      fromText ? h("q", {}, data(shorten(chunk.samples.texts[i] ?? chunk.samples.ids[i], 160))) : h("b", {}, "image ", data(shorten(chunk.samples.ids[i], 40))),
      h("span", { class: access.rank(m, i) === 1 ? "good-text" : "bad-text" }, `${targetOf(chunk, i)} ${rankText(access, m, i)}`),
      own && fromText && h("span", { class: "strip" }, own.top.map((place) => found(chunk, place, place >= 0 && chunk.samples.images[i] === place))),
    ];
  },
  question: (chunk, access, m, i) => {
    const question = chunk.samples.questions[i] || {};
    const own = access.detail(m, i) || {};
    return [
      h("b", {}, data(shorten(String(question.question ?? chunk.samples.ids[i]), 160))),
      h("span", { class: { true: "good-text", false: "bad-text" }[access.ok(m, i)] || "" }, data(shorten(String(own.prediction ?? ""), 120))),
      h("small", {}, "answer ", data(question.answer), " · read as ", data(own.extracted ?? "nothing")),
    ];
  },
};

function targetOf(chunk, i) {
  if (chunk.samples.from_text[i] !== 1) return "caption";
  return chunk.gallery === "documents" ? "document" : "image";
}

function rankText(access, m, i) {
  return access.rank(m, i) < 0 ? "not found" : `at rank ${access.rank(m, i)}`;
}

// A found image: the target is framed.
function found(chunk, place, isTarget) {
  const node = place >= 0 ? image(chunk, place, 44) : null;
  return node ? set(node, { class: isTarget ? "target" : "", alt: isTarget ? "the right image" : "another image" }) : h("span", { class: `no-image${isTarget ? " target" : ""}` }, isTarget ? "✓" : "·");
}

function openSample(view, access, i, list) {
  const { chunk, m } = view;
  const place = list.indexOf(i);
  const go_to = (step) => () => {
    dialog.close();
    openSample(view, access, list[place + step], list);
  };
  const dialog = openDialog(
    ["Sample ", data(shorten(chunk.samples.ids[i], 120))],
    h("div", { class: "toolbar" }, button("Previous", go_to(-1), { disabled: place <= 0 }), button("Next", go_to(1), { disabled: place < 0 || place >= list.length - 1 }), verdictOf(access, m, i)),
    DETAILS[chunk.form](chunk, access, m, i),
    everyModel(view, access, i),
  );
}

const DETAILS = {
  label: (chunk, access, m, i) => {
    const own = access.detail(m, i);
    return [
      h("div", { class: "sample-head" }, image(chunk, i, 144), h("p", {}, "True class: ", h("b", {}, data(className(chunk, chunk.samples.label[i]))), h("br"), access.ok(m, i) !== null && `Its rank: ${access.rank(m, i)}`)),
      own && Array.isArray(own.top) && scoreBars(chunk, own, (label) => label === chunk.samples.label[i]),
    ];
  },
  labels: (chunk, access, m, i) => {
    const own = access.detail(m, i);
    return [
      h("div", { class: "sample-head" }, image(chunk, i, 144), h("p", {}, "True classes: ", chunk.samples.labels[i].map((label, k) => [k > 0 && ", ", h("b", {}, data(className(chunk, label)))]))),
      own && scoreBars(chunk, own, (label) => chunk.samples.labels[i].includes(label)),
    ];
  },
  ranking: (chunk, access, m, i) => {
    const own = access.detail(m, i);
    const { samples } = chunk;
    const fromText = samples.from_text[i] === 1;
    const target = samples.images[i];
    return [
      fromText ? h("blockquote", {}, data(samples.texts[i] ?? samples.ids[i])) : h("div", { class: "sample-head" }, image(chunk, i, 144)),
      h("p", {}, `${fromText ? `The right ${targetOf(chunk, i)}` : "The best of the right captions"} is ${rankText(access, m, i)}.`),
      fromText && target >= 0 && image(chunk, target, 144) && h("figure", {}, image(chunk, target, 144), h("figcaption", {}, "the right image")),
      own && h("h3", {}, "Found instead"),
      own && h("ol", { class: "found" }, own.top.map((place, k) => foundItem(chunk, place, own.names[k], fromText ? place === target && place >= 0 : place >= 0 && samples.images[place] === i))),
      !own && h("p", { class: "note" }, "What was found is kept for the hardest queries only."),
    ];
  },
  question: (chunk, access, m, i) => {
    const question = chunk.samples.questions[i] || {};
    const own = access.detail(m, i) || {};
    return [
      h("div", { class: "sample-head" }, image(chunk, i, 144), h("p", { class: "long" }, data(question.question))),
      question.options && h("ul", { class: "options" }, Object.entries(question.options).map(([letter, text]) => h("li", { class: letter === String(question.answer) ? "target" : "" }, h("b", {}, data(letter)), " ", data(String(text)), letter === String(question.answer) && h("small", {}, " the right answer"), letter === String(own.extracted) && h("small", {}, " chosen")))),
      h("h3", {}, "Answer"),
      h("p", { class: "long answer" }, data(String(own.prediction ?? ""))),
      own.thinking && h("details", {}, h("summary", {}, "Reasoning"), h("p", { class: "long" }, data(String(own.thinking)))),
      facts([["Right answer", question.answer], ["Read as", own.extracted ?? "nothing"], ["Rule that decided", own.rule], ["Category", question.category]]),
    ];
  },
};

function foundItem(chunk, place, name, isTarget) {
  const { samples } = chunk;
  const text = place >= 0 && samples.texts[place] !== undefined ? samples.texts[place] : name;
  return h("li", { class: isTarget ? "target" : "" }, place >= 0 && image(chunk, place, 72), h("span", {}, data(text)), isTarget && h("small", {}, " the right one"));
}

function scoreBars(chunk, own, isRight) {
  const scores = Array.isArray(own.scores) ? own.scores : [];
  const top = Math.max(...scores, 1e-9);
  const bottom = Math.min(...scores, top) - 0.2 * (top - Math.min(...scores, top)) - 1e-9;
  return h(
    "ol",
    { class: "bars" },
    own.top.map((label, k) =>
      h("li", { class: isRight(label) ? "target" : "" }, h("span", { class: "bar-name" }, data(className(chunk, label)), isRight(label) && h("small", {}, " true")), h("span", { class: "bar-track", "aria-hidden": "true" }, h("span", { class: "bar", style: { width: `${(100 * (scores[k] - bottom)) / (top - bottom)}%` } })), h("span", { class: "bar-value" }, Number.isFinite(scores[k]) ? scores[k].toFixed(4) : "")),
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
  return [
    h("h3", {}, "All models on this sample"),
    h("table", { class: "plain-table" }, h("thead", {}, h("tr", {}, ["Model", "Answer", ""].map((text) => h("th", { scope: "col" }, text || h("span", { class: "offscreen" }, "Verdict"))))), h("tbody", {}, models.map((m) => h("tr", { class: m === view.m ? "chosen" : "" }, h("th", { scope: "row" }, data(MODELS[m].label)), h("td", {}, answer(m)), h("td", {}, verdictOf(access, m, i)))))),
  ];
}
