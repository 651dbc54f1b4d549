"""Zero-shot retrieval: find the picture for a caption, and the captions for a picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eyechart import stats
from eyechart.errors import UsageError
from eyechart.metrics.retrieval import Positives, Ranks, hit_rate, rank_positives, top_items
from eyechart.metrics.vectors import Vectors, unit
from eyechart.tasks.base import Material, Prediction, Task, need_samples
from eyechart.types import Metric, Notice, Outcome

EXAMPLES = 200
"""For this many of the hardest queries in each direction, the record also holds what was found instead."""
SHOWN = 5

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class RetrievalPrediction(Prediction):
    """Unit vectors of pictures and captions, and whose caption each is."""

    images: Vectors
    texts: Vectors
    owner: Ints
    """For each caption, the position of its picture."""


class ZeroshotRetrieval(Task):
    """image_retrieval_recall@k (caption to picture) and text_retrieval_recall@k (picture to caption).

    Both are hit rates, as everywhere in the CLIP literature: at least one right answer among the first k.
    """

    name = "zeroshot_retrieval"
    version = 1
    kinds = frozenset({"retrieval"})

    def settings(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Pick and check the values of k."""
        ks = sorted(set(options.get("recall_k") or [5]))
        if ks[0] < 1:
            raise UsageError(f"recall_k must be 1 or more, not {ks[0]}.")
        return {"recall_k": ks}

    def predict(self, material: Material, settings: Mapping[str, Any]) -> RetrievalPrediction:  # noqa: ARG002
        """Embed pictures and captions."""
        pictures = material.model.images(material.listing)
        entries = material.listing.take(pictures.kept)
        captions = [text for entry in entries for text in entry.texts]
        owner = np.repeat(np.arange(len(entries)), [len(entry.texts) for entry in entries])
        return RetrievalPrediction(
            info=material.info,
            entries=entries,
            failures=pictures.failures,
            images=unit(pictures.vectors),
            texts=unit(material.model.texts(captions, language=material.language)),
            owner=owner,
        )

    def score(self, prediction: RetrievalPrediction, settings: Mapping[str, Any]) -> Outcome:
        """Rank in both directions and count hits at each k."""
        need_samples(prediction)
        images, texts, owner = prediction.images, prediction.texts, prediction.owner
        to_images = Positives.one_each(owner)
        to_texts = Positives.inverse(owner, len(images))
        image_ranks = rank_positives(texts, images, to_images)
        text_ranks = rank_positives(images, texts, to_texts)
        metrics: dict[str, Metric] = {}
        for k in settings["recall_k"]:
            metrics[f"image_retrieval_recall@{k}"] = _metric(image_ranks, k, owner, to_images, len(images))
            metrics[f"text_retrieval_recall@{k}"] = _metric(text_ranks, k, np.arange(len(images)), to_texts, len(texts))
        return Outcome(
            metrics=metrics,
            records=[*_image_records(prediction, text_ranks), *_text_records(prediction, image_ranks)],
            notices=list(_notices(prediction, settings["recall_k"], image_ranks, text_ranks)),
            details={"captions": len(texts), "images": len(images)},
        )


def _metric(ranks: Ranks, k: int, cluster: Ints, positives: Positives, gallery: int) -> Metric:
    """Hit rate at k, its interval with pictures as the independent units, and what chance would give."""
    hits = ranks.ranks <= k
    sizes = np.bincount(cluster)
    interval = stats.clustered_proportion(np.bincount(cluster, weights=hits), sizes)
    counts, times = np.unique(positives.counts(), return_counts=True)
    chance = float(np.average([stats.chance_hit_rate(gallery, int(p), k) for p in counts], weights=times))
    return Metric(hit_rate(ranks.ranks, k), interval.low, interval.high, chance, len(sizes))


def _text_ids(prediction: RetrievalPrediction) -> list[str]:
    return [f"{entry.id}#{i}" for entry in prediction.entries for i in range(len(entry.texts))]


def _hardest(ranks: Ints) -> Ints:
    """Return the queries with the worst ranks that were not answered at once, worst first."""
    order = np.argsort(-ranks, kind="stable")[:EXAMPLES]
    return order[ranks[order] > 1]


def _found(queries: Vectors, gallery: Vectors, names: Sequence[str], ranks: Ints) -> dict[int, list[str]]:
    """Return what was found first for the hardest queries."""
    chosen = _hardest(ranks)
    if not len(chosen):
        return {}
    items, _ = top_items(queries[chosen], gallery, SHOWN)
    return {int(q): [names[i] for i in row] for q, row in zip(chosen, items, strict=True)}


def _image_records(prediction: RetrievalPrediction, ranks: Ranks) -> Iterator[dict[str, Any]]:
    found = _found(prediction.images, prediction.texts, _text_ids(prediction), ranks.ranks)
    for i, entry in enumerate(prediction.entries):
        record = {"id": entry.id, "query": "image", "rank": int(ranks.ranks[i]), "tied": bool(ranks.tied[i])}
        yield record | ({"top": found[i]} if i in found else {})


def _text_records(prediction: RetrievalPrediction, ranks: Ranks) -> Iterator[dict[str, Any]]:
    names = [entry.id for entry in prediction.entries]
    found = _found(prediction.texts, prediction.images, names, ranks.ranks)
    captions = [text for entry in prediction.entries for text in entry.texts]
    for i, (name, text) in enumerate(zip(_text_ids(prediction), captions, strict=True)):
        record = {
            "id": name,
            "query": "text",
            "image": names[prediction.owner[i]],
            "text": text,
            "rank": int(ranks.ranks[i]),
            "tied": bool(ranks.tied[i]),
        }
        yield record | ({"top": found[i]} if i in found else {})


def _notices(prediction: RetrievalPrediction, ks: Sequence[int], *directions: Ranks) -> Iterator[Notice]:
    for gallery, size in (("pictures", len(prediction.images)), ("captions", len(prediction.texts))):
        trivial = [k for k in ks if k >= size]
        if trivial:
            yield Notice(
                "k_covers_gallery",
                len(trivial),
                f"With {size} {gallery}, recall@{trivial[0]} is 1 whatever the model does: use a smaller k.",
            )
    tied = sum(int(direction.tied.sum()) for direction in directions)
    if tied:
        yield Notice("ties", tied, f"{tied} queries tie with a wrong answer; ties count against the right one.")
