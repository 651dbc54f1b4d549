// A query of retrieval: what is right stands next to what was found, texts for an image, an image for a text.

const textsByImage = new WeakMap();

function rightTexts(chunk, i) {
  const { samples } = chunk;
  if (!textsByImage.has(chunk)) {
    const found = new Map();
    for (const [place, owner] of Object.entries(samples.images)) {
      if (owner >= 0 && samples.texts[place] !== undefined) found.set(owner, [...(found.get(owner) ?? []), samples.texts[place]]);
    }
    textsByImage.set(chunk, found);
  }
  return textsByImage.get(chunk).get(i) ?? [];
}

function retrievalCard(chunk, access, m, i) {
  const own = access.detail(m, i);
  const { samples } = chunk;
  const rank = h("span", { class: access.rank(m, i) === 1 ? "good-text" : "bad-text" }, `${t(targetOf(chunk, i))} ${rankText(access, m, i)}`);
  if (samples.from_text[i] === 1) {
    const target = samples.images[i] ?? -1;
    const pictures = own ? own.top : [];
    const missing = chunk.gallery !== "documents" && target >= 0 && !pictures.includes(target);
    return [
      h("q", {}, data(shorten(samples.texts[i] ?? samples.ids[i], 160))),
      rank,
      (own || missing) && h("span", { class: "strip" }, missing && [found(chunk, target, true), own && h("span", { class: "apart" })], pictures.map((place, k) => found(chunk, imageKey(place, own.names[k]), isRight(chunk, i, own, k)))),
    ];
  }
  const right = rightTexts(chunk, i);
  const first = own && foundText(chunk, own.top[0], own.names[0]);
  return [
    right.length ? h("q", { class: "good-text" }, data(shorten(right[0], 120))) : h("b", {}, tNodes("image {name}", { name: data(shorten(samples.ids[i], 40)) })),
    rank,
    first && !right.includes(first) && h("small", {}, tNodes("found: {text}", { text: h("q", {}, data(shorten(first, 120))) })),
  ];
}

function retrievalDetails(chunk, access, m, i) {
  const own = access.detail(m, i);
  const { samples } = chunk;
  const fromText = samples.from_text[i] === 1;
  const target = samples.images[i];
  const right = rightTexts(chunk, i);
  return [
    fromText ? h("blockquote", {}, data(samples.texts[i] ?? samples.ids[i])) : h("div", { class: "sample-head" }, largeImage(chunk, i), right.length > 0 && h("div", {}, h("h3", {}, t("The right captions")), h("ul", { class: "right-texts" }, right.map((text) => h("li", {}, data(text)))))),
    h("p", {}, t(fromText ? word("The right {what} is {where}.") : word("The best of the right captions is {where}."), { what: t(targetOf(chunk, i)), where: rankText(access, m, i) })),
    fromText && target >= 0 && chunk.samples.thumbnails[target] && h("figure", {}, largeImage(chunk, target, t("the right image")), h("figcaption", {}, t("the right image"))),
    own?.relevant && chunk.samples.thumbnails[`/${own.relevant[0]}`] && h("figure", {}, h("figcaption", {}, t("the right one")), largeImage(chunk, `/${own.relevant[0]}`, t("the right one"))),
    own && h("h3", {}, t("Found instead")),
    own && h("ol", { class: "found" }, own.top.map((place, k) => foundItem(chunk, place, own, k, isRight(chunk, i, own, k)))),
    !own && h("p", { class: "note" }, t("Retrieved items are kept for the hardest queries only.")),
  ];
}

// The right image of a text, the right texts of an image, the relevant documents of a query.
function isRight(chunk, i, own, k) {
  const { from_text: fromText, images } = chunk.samples;
  const place = own.top[k];
  if (own.relevant) return own.relevant.includes(own.names[k]);
  return place >= 0 && (fromText[i] === 1 ? place === images[i] : images[place] === i);
}

function foundText(chunk, place, name) {
  return place >= 0 && chunk.samples.texts[place] !== undefined ? chunk.samples.texts[place] : name;
}

function targetOf(chunk, i) {
  if (chunk.samples.from_text[i] !== 1) return word("caption");
  return chunk.gallery === "documents" ? word("document") : word("image");
}

function rankText(access, m, i) {
  return access.rank(m, i) < 0 ? t("not found") : t("at rank {rank}", { rank: access.rank(m, i) });
}

// A found image: the target is framed.
function found(chunk, key, isTarget) {
  const node = image(chunk, key, 38);
  return node ? set(node, { class: isTarget ? "target" : "", alt: isTarget ? t("the right image") : t("another image") }) : h("span", { class: `no-image${isTarget ? " target" : ""}` }, isTarget ? "✓" : "·");
}

function foundItem(chunk, place, own, k, isTarget) {
  const key = imageKey(place, own.names[k]);
  const score = own.scores && own.scores[k];
  return h(
    "li",
    { class: isTarget ? "target" : "" },
    chunk.gallery === "documents" ? largeImage(chunk, key) : image(chunk, key, 72),
    h("span", {}, data(foundText(chunk, place, own.names[k]))),
    Number.isFinite(score) && h("small", {}, " ", t("similarity {value}", { value: score.toFixed(4) })),
    isTarget && h("small", {}, " ", t("the right one")),
  );
}
