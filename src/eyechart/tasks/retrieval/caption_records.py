"""One record per image and per caption: where what it looks for was found, and what was found instead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from eyechart.metrics.retrieval import Ranks, top_items
from eyechart.tasks.retrieval.caption_search import Direction, Ints, RetrievalPrediction, Search

EXAMPLES = 200
"""For this many of the hardest queries in each direction, the record also holds what was found instead."""
SHOWN = 5

Fields = Mapping[str, Mapping[int, float]]
"""Further numbers of the records, by name and query."""


def search_records(
    prediction: RetrievalPrediction, found: Search, image_fields: Fields, text_fields: Fields
) -> list[dict[str, Any]]:
    """Make the records of all images that are queries, then of all captions."""
    names = [entry.id for entry in prediction.entries]
    texts = [f"{entry.id}#{i}" for entry in prediction.entries for i in range(len(entry.texts))]
    captions, words = prediction.asked_captions, prediction.captions
    images = [{"id": names[place], "query": "image"} for place in prediction.asked]
    queries = [
        {"id": texts[place], "query": "text", "image": names[prediction.owner[place]], "text": words[place]}
        for place in captions
    ]
    return [
        *_records(images, found.to_text, found.text_ranks, texts, image_fields),
        *_records(queries, found.to_image, found.image_ranks, names, text_fields),
    ]


def _records(
    heads: Sequence[Mapping[str, Any]], way: Direction, ranks: Ranks, names: Sequence[str], fields: Fields
) -> Iterator[dict[str, Any]]:
    top = _found(way, names, ranks.ranks)
    for i, head in enumerate(heads):
        record = {**head, "rank": int(ranks.ranks[i]), "tied": bool(ranks.tied[i])}
        record |= {name: values[i] for name, values in fields.items() if i in values}
        yield record | ({"top": top[i]} if i in top else {})


def _found(way: Direction, names: Sequence[str], ranks: Ints) -> dict[int, list[str]]:
    """Return what was found first for the hardest queries: the worst ranks, but none that was answered at once."""
    order = np.argsort(-ranks, kind="stable")[:EXAMPLES]
    chosen = order[ranks[order] > 1]
    if not len(chosen):
        return {}
    items = top_items(way.queries[chosen], way.gallery, SHOWN)
    return {int(q): [names[i] for i in row] for q, row in zip(chosen, items, strict=True)}
