// What was sent to a generator and what it answered, what a judge was asked and replied, and several models' answers
// side by side. Texts come from models and data: they are only ever inserted as text.

const UNREAD_RULES = ["undecided", "unreadable verdict", "cut", "failed"]; // as eyechart.scorers.rule
const DIFF_WORDS = 400; // longer answers are shown without marks
const DIFF_MODELS = 24;

function listOf(value) {
  return Array.isArray(value) ? value : [];
}

function isUnread(own) {
  return own !== null && UNREAD_RULES.includes(own.rule);
}

// The answers to a question by all models, for the search.
function answerTexts(samples, i) {
  return samples.models.map((m) => String(samples.details[m]?.[i]?.prediction ?? ""));
}

// ------------------------------------------------------------------------------------------------ one model

// The conversation with one model about a sample, or only its answer if the page has no more of it.
function transcriptDetails(chunk, m, i, own) {
  const said = own.transcript;
  const messages = said ? listOf(said.messages) : [{ role: "assistant", content: [own.prediction ?? ""], reasoning: own.thinking }];
  const blind = Boolean(chunk.results?.[m]?.job?.settings?.blind); // then another image than the sample's was sent, or none
  let shown = blind;
  const thumbnail = () => {
    const node = shown ? null : image(chunk, i, 48);
    shown = true;
    return node;
  };
  return [
    h("h3", {}, said ? t("Transcript") : t("Answer")),
    h("div", { class: "transcript" }, messages.map((message) => messageBlock(message, own, thumbnail, !said))),
    said && listOf(said.judges).map(judgeBlock),
    !said && h("p", { class: "note" }, t("The page holds the transcripts of the most missed questions; the records file of the result has all.")),
  ];
}

const ROLES = { system: word("System"), user: word("User"), assistant: word("Model") };

function messageBlock(message, own, thumbnail, bare) {
  const role = String(message?.role);
  const answered = role === "assistant";
  const part = (one) => (typeof one === "string" ? h("div", { class: "long" }, answered ? markedAnswer(one, own) : data(one)) : imagePart(one, thumbnail));
  return h(
    "div",
    { class: `message ${answered ? "answer" : ""}` },
    !bare && h("b", { class: "role" }, role in ROLES ? t(ROLES[role]) : data(role)),
    message?.reasoning && h("details", {}, h("summary", {}, t("Reasoning")), h("div", { class: "long" }, data(String(message.reasoning)))),
    listOf(message?.content).map(part),
    message?.refusal && h("p", { class: "bad-text" }, t("Refusal: "), data(String(message.refusal))),
    message?.error && h("p", { class: "bad-text" }, t("Error: "), data(String(message.error))),
    answered && !bare && usageLine(message),
  );
}

function imagePart(one, thumbnail) {
  const name = String(one?.name ?? "");
  return h("div", { class: "image-part" }, thumbnail(), h("span", {}, t("Image "), data(shorten(name, 80)), " ", h("code", { title: String(one?.image ?? "") }, shorten(String(one?.image ?? ""), 13))));
}

// Tokens, seconds, finish reason and retries, as far as they are known.
function usageLine(message) {
  const tokens = message?.tokens || {};
  const known = [
    [tokens.prompt, word("prompt tokens {n}")],
    [tokens.cached, word("of these cached {n}")],
    [tokens.completion, word("completion tokens {n}")],
    [message?.seconds, word("seconds {n}")],
    [message?.finish_reason, word("finish reason {n}")],
    [message?.retries, word("retries {n}")],
  ].filter(([value]) => value !== null && value !== undefined);
  return known.length > 0 && h("p", { class: "note" }, data(known.map(([value, text]) => t(text, { n: typeof value === "number" ? value.toLocaleString("en") : shorten(String(value), 60) })).join(" · ")));
}

// An answer with the part that was read as its value; the last occurrence, as a word of its own.
function markedAnswer(text, own) {
  const wanted = String(own.extracted ?? "");
  if (!wanted || wanted.length > 200 || text.trim() === wanted) return data(text);
  const escaped = wanted.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const found = [...text.matchAll(new RegExp(`(?<![\\p{L}\\p{N}])${escaped}(?![\\p{L}\\p{N}])`, "giu"))].pop();
  if (!found) return data(text);
  return h("bdi", {}, text.slice(0, found.index), h("mark", { title: t("Read as") }, found[0]), text.slice(found.index + found[0].length));
}

function judgeBlock(one) {
  const verdict = one?.verdict;
  const read = typeof verdict === "number" ? t("score {n}", { n: +verdict.toFixed(4) }) : t("verdict could not be read");
  const replies = listOf(one?.replies);
  const reply = (said) => messageBlock({ ...said, role: "assistant" }, {}, () => null, true);
  return h(
    "div",
    { class: "message judge" },
    h("p", {}, h("b", { class: "role" }, t("Judge"), " ", data(shorten(String(one?.judge ?? ""), 120))), " ", one?.repeat > 0 && t("repeat {n}", { n: one.repeat + 1 }), " ", h("span", { class: `verdict ${typeof verdict !== "number" ? "open" : verdict >= 1 ? "good" : "bad"}` }, read)),
    h("details", {}, h("summary", {}, t("What the judge was asked")), h("div", { class: "long" }, data(String(one?.question ?? "")))),
    replies.length > 1 && h("details", {}, h("summary", {}, t("Earlier replies that could not be read: {n}", { n: replies.length - 1 })), replies.slice(0, -1).map(reply)),
    replies.slice(-1).map(reply),
    replies.length > 0 && usageLine(replies[replies.length - 1]),
  );
}

// ------------------------------------------------------------------------------------------------ several models

// All models' answers to one question; what differs from the chosen model's answer is marked.
function answersSideBySide(view, access, i) {
  const { chunk } = view;
  const said = (m) => String(access.detail(m, i)?.prediction ?? "");
  const own = said(view.m);
  const others = chunk.samples.models.filter((m) => m !== view.m);
  const column = (m, nodes) =>
    h(
      "article",
      { class: `side ${m === view.m ? "chosen" : ""}` },
      h("h4", {}, data(MODELS[m].label)),
      h("p", {}, verdictOf(access, m, i), " ", h("small", {}, tNodes("read as {extracted}", { extracted: data(access.detail(m, i)?.extracted ?? t("nothing")) }))),
      h("div", { class: "long" }, nodes),
    );
  return [
    h("h3", {}, t("All models on this sample")),
    h("div", { class: "sides" }, column(view.m, data(own)), others.map((m, k) => column(m, k < DIFF_MODELS ? differing(own, said(m)) : data(said(m))))),
    others.some((m) => said(m) !== own) && h("p", { class: "note" }, t("Marked: words that {model} does not have at this place.", { model: MODELS[view.m].label })),
  ];
}

// The words of an answer, those outside the longest common sequence with another answer marked.
function differing(other, text) {
  const words = text.split(/(?<=\s)(?=\S)/);
  const theirs = other.split(/\s+/).filter(Boolean);
  if (text === other || text === "" || words.length > DIFF_WORDS || theirs.length > DIFF_WORDS) return data(text);
  const mine = words.map((one) => one.trim());
  const width = theirs.length + 1;
  const common = new Uint16Array((mine.length + 1) * width); // of the rest from each pair of places
  for (let a = mine.length - 1; a >= 0; a -= 1) {
    for (let b = theirs.length - 1; b >= 0; b -= 1) {
      const skip = Math.max(common[(a + 1) * width + b], common[a * width + b + 1]);
      common[a * width + b] = mine[a] === theirs[b] ? common[(a + 1) * width + b + 1] + 1 : skip;
    }
  }
  const nodes = [];
  for (let a = 0, b = 0; a < mine.length; a += 1) {
    while (b < theirs.length && mine[a] !== theirs[b] && common[a * width + b + 1] >= common[(a + 1) * width + b]) b += 1;
    const same = b < theirs.length && mine[a] === theirs[b];
    if (same) b += 1;
    nodes.push(same ? words[a] : h("mark", {}, words[a]));
  }
  return h("bdi", {}, nodes);
}
