// Which texts belong to an image.

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
