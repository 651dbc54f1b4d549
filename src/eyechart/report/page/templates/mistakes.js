// The most confident mistakes of each benchmark as images, under the first table: what the numbers look like.

const STRIPS = 4; // benchmarks that are shown at once; the others unfold
const STRIP_IMAGES = 12;

function mistakesSection() {
  const shown = BENCHMARKS.map((benchmark, b) => ({ benchmark, b })).filter(({ benchmark }) => benchmark.images > 0);
  if (!shown.length) return null;
  return h(
    "section",
    { class: "mistakes", "aria-labelledby": "mistakes-title" },
    h("h2", { id: "mistakes-title" }, t("Most confident mistakes")),
    shown.slice(0, STRIPS).map(({ b }) => mistakeStrip(b)),
    shown.length > STRIPS && h("details", { class: "more" }, h("summary", {}, t("{n} more benchmarks", { n: shown.length - STRIPS })), shown.slice(STRIPS).map(({ b }) => mistakeStrip(b))),
  );
}

// A benchmark's samples are unpacked when its strip comes near the screen.
function mistakeStrip(b) {
  const node = h("div", { class: "mistake-strip", "data-benchmark": b });
  const near = new IntersectionObserver(async ([entry]) => {
    if (!entry.isIntersecting) return;
    near.disconnect();
    const turn = turns;
    const chunk = await chunkOf(b);
    if (turn === turns) replace(node, drawStrip(b, chunk));
  }, { rootMargin: "400px" });
  near.observe(node);
  return node;
}

function drawStrip(b, chunk) {
  const benchmark = BENCHMARKS[b];
  const access = sampleAccess(chunk);
  const models = [...chunk.samples.models].sort(byColumn({ b, i: benchmark.primary[0] ?? 0 }));
  const withImages = (m) => filterSamples({ chunk, m }, access, { show: "wrong", query: "", other: "", cell: null, direction: "" }).filter((i) => pictured(chunk, i) >= 0);
  const m = models.find((model) => withImages(model).length) ?? models[0];
  const samples = withImages(m).slice(0, STRIP_IMAGES);
  if (!samples.length) return null;
  return [
    h("h3", {}, h("a", { href: `#/benchmark/${b}?model=${m}` }, data(benchmark.label)), h("span", { class: "hint" }, " ", data(MODELS[m].label))),
    h("ul", { class: "strip-list" }, samples.map((i) => h("li", {}, h("a", { href: `#/benchmark/${b}?model=${m}&sample=${i}` }, image(chunk, pictured(chunk, i), 88), h("span", { class: "strip-text" }, MISTAKES[chunk.form](chunk, access, m, i)))))),
  ];
}

// The image that stands for a sample: its own, or that of a text.
function pictured(chunk, i) {
  const { thumbnails, from_text: fromText, images } = chunk.samples;
  const place = fromText && fromText[i] === 1 ? (images[i] ?? -1) : i;
  return thumbnails[place] ? place : -1;
}

const MISTAKES = {
  label: (chunk, access, m, i) => [h("b", {}, data(className(chunk, chunk.samples.label[i]))), h("span", { class: "bad-text" }, "→ ", data(className(chunk, access.prediction(m, i))))],
  labels: (chunk, access, m, i) => [h("b", {}, chunk.samples.labels[i].map((label, k) => [k > 0 && ", ", data(className(chunk, label))])), h("span", { class: "bad-text" }, "→ ", data(className(chunk, (access.detail(m, i)?.top ?? [])[0])))],
  ranking: (chunk, access, m, i) => [h("b", {}, chunk.samples.from_text[i] === 1 ? h("q", {}, data(shorten(chunk.samples.texts[i] ?? chunk.samples.ids[i], 60))) : data(shorten(rightTexts(chunk, i)[0] ?? chunk.samples.ids[i], 60))), h("span", { class: "bad-text" }, rankText(access, m, i))],
  question: (chunk, access, m, i) => [h("b", {}, data(shorten(String(chunk.samples.questions[i]?.question ?? chunk.samples.ids[i]), 60))), h("span", { class: "bad-text" }, "→ ", data(shorten(String(access.detail(m, i)?.extracted ?? t("nothing")), 40)))],
};
