"""Zero-shot retrieval: find the image for a caption, and the captions for an image."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from eyechart import stats
from eyechart.errors import UsageError
from eyechart.metrics.ranking import METRICS, rank_relevant
from eyechart.metrics.ranking_chance import CHANCE
from eyechart.metrics.retrieval import Positives, Ranks, hit_rate, rank_both_ways, rank_positives, top_items
from eyechart.metrics.vectors import Vectors, unit
from eyechart.tasks import collection_retrieval
from eyechart.tasks.base import Material, Prediction, Task, need_samples
from eyechart.tasks.collection_retrieval import CollectionPrediction
from eyechart.types import Metric, Notice, Outcome

EXAMPLES = 200
"""For this many of the hardest queries in each direction, the record also holds what was found instead."""
SHOWN = 5
DEPTH = 10
"""The k of MRR, nDCG and MAP."""
MEAN_RECALL = re.compile(r"mean_recall@(\d+)")

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class RetrievalPrediction(Prediction):
    """Unit vectors of images and captions, and whose caption each is."""

    images: Vectors
    texts: Vectors
    owner: Ints
    """For each caption, the position of its image."""
    asked: Ints
    """The images that are queries, as their captions are; the gallery is always everything."""

    def only(self, keep: Ints) -> Self:
        """Return the prediction with fewer queries and the same gallery."""
        return replace(self, asked=self.asked[keep], failures=())


@dataclass(frozen=True)
class Direction:
    """One way to search: which queries, in which gallery, what is right, and which image each query belongs to."""

    name: str
    queries: Vectors
    gallery: Vectors
    positives: Positives
    cluster: Ints


class ZeroshotRetrieval(Task):
    """image_retrieval_recall@k (caption to image) and text_retrieval_recall@k (image to caption).

    Both are hit rates, as everywhere in the CLIP literature: at least one right answer among the first k. With
    ``--metrics full`` also, for both directions: true recall (``true_recall@k``: the share of right answers among the
    first k), MRR, nDCG and MAP at 10, the median rank, and mean_recall@k over both directions. A collection (texts,
    images or both on either side, graded relevance) gets the metrics of text retrieval.
    """

    name = "zeroshot_retrieval"
    version = 1
    kinds = frozenset({"retrieval", "collection"})

    def settings(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Pick and check the values of k."""
        ks = set(options.get("recall_k") or [5])
        main = MEAN_RECALL.fullmatch(str(options.get("main_metric")))
        if main:
            ks.add(int(main[1]))
        if min(ks) < 1:
            raise UsageError(f"recall_k must be 1 or more, not {min(ks)}.")
        return {
            "recall_k": sorted(ks),
            "metrics": options.get("metrics", "default"),
            **({"main_metric": main[0]} if main else {}),
        }

    def predict(self, material: Material, settings: Mapping[str, Any]) -> Prediction:  # noqa: ARG002
        """Embed images and texts."""
        if material.info.kind == "collection":
            return collection_retrieval.predict(material)
        embedded = material.model.images(material.manifest)
        entries = material.manifest.take(embedded.kept)
        captions = [text for entry in entries for text in entry.texts]
        return RetrievalPrediction(
            info=material.info,
            entries=entries,
            failures=embedded.failures,
            images=unit(embedded.vectors),
            texts=unit(material.model.texts(captions, language=material.language)),
            owner=np.repeat(np.arange(len(entries)), [len(entry.texts) for entry in entries]),
            asked=np.arange(len(entries)),
        )

    def score(self, prediction: Prediction, settings: Mapping[str, Any]) -> Outcome:
        """Rank in both directions and count hits at each k."""
        need_samples(prediction)
        if isinstance(prediction, CollectionPrediction):
            return collection_retrieval.score(prediction, settings)
        return _score_captions(cast("RetrievalPrediction", prediction), settings)


def _score_captions(prediction: RetrievalPrediction, settings: Mapping[str, Any]) -> Outcome:
    to_image, to_text = directions(prediction)
    image_ranks, text_ranks = _rank(prediction, to_image, to_text)
    metrics: dict[str, Metric] = {}
    for k in settings["recall_k"]:
        metrics[f"image_retrieval_recall@{k}"] = _hit_rate(image_ranks, k, to_image)
        metrics[f"text_retrieval_recall@{k}"] = _hit_rate(text_ranks, k, to_text)
    full = settings.get("metrics") == "full"
    wanted = [f"mean_recall@{k}" for k in settings["recall_k"]] if full else [settings.get("main_metric")]
    for name in filter(None, wanted):
        metrics[name] = _mean_recall(name, metrics)
    if full:
        for way, ranks in ((to_image, image_ranks), (to_text, text_ranks)):
            metrics |= _full(way, ranks, settings["recall_k"])
    return Outcome(
        metrics=metrics,
        records=[*_image_records(prediction, text_ranks), *_text_records(prediction, image_ranks)],
        notices=list(_notices(prediction, settings["recall_k"], image_ranks, text_ranks)),
        details={"captions": len(prediction.texts), "images": len(prediction.images)},
    )


def _rank(prediction: RetrievalPrediction, *ways: Direction) -> tuple[Ranks, ...]:
    if len(prediction.asked) == len(prediction.images):
        return rank_both_ways(prediction.images, prediction.texts, prediction.owner)
    return tuple(rank_positives(way.queries, way.gallery, way.positives) for way in ways)


def directions(prediction: RetrievalPrediction) -> tuple[Direction, Direction]:
    """Set up the search for images by caption and for captions by image, for the queries that are asked."""
    images, texts, asked = prediction.images, prediction.texts, prediction.asked
    captions = _asked_captions(prediction)
    place = np.full(len(images), -1)
    place[asked] = np.arange(len(asked))
    owner = prediction.owner[captions]
    counts = np.bincount(owner, minlength=len(images))[asked]
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int64)
    own = captions[np.argsort(place[owner], kind="stable")]
    return (
        Direction("image_retrieval", texts[captions], images, Positives.one_each(owner), place[owner]),
        Direction("text_retrieval", images[asked], texts, Positives(own, starts), np.arange(len(asked))),
    )


def _asked_captions(prediction: RetrievalPrediction) -> Ints:
    return np.flatnonzero(np.isin(prediction.owner, prediction.asked))


def _hit_rate(ranks: Ranks, k: int, way: Direction) -> Metric:
    """Hit rate at k, its interval with images as the independent units, and what chance would give."""
    sizes = np.bincount(way.cluster)
    low, high = stats.mean_interval(ranks.ranks <= k, way.cluster) or (None, None)
    chance = _chance(way, "hit_rate", k)
    return Metric(hit_rate(ranks.ranks, k), low, high, chance, len(sizes))


def _chance(way: Direction, name: str, k: int) -> float:
    counts, times = np.unique(way.positives.counts(), return_counts=True)
    levels = [CHANCE[name](len(way.gallery), int(right), int(right), k) for right in counts]
    return float(np.average(levels, weights=times))


def _mean_recall(name: str, metrics: Mapping[str, Metric]) -> Metric:
    """Average the hit rates of the two directions: DataComp's main metric for Flickr and COCO."""
    k = name.rpartition("@")[2]
    both = [metrics[f"{way}_retrieval_recall@{k}"] for way in ("image", "text")]
    chance = sum(metric.chance or 0.0 for metric in both) / 2
    return Metric(sum(metric.value for metric in both) / 2, chance=chance, n=both[1].n)


def _full(way: Direction, ranks: Ranks, ks: Sequence[int]) -> dict[str, Metric]:
    """Compute what looks at all right answers, and the median rank of the first."""
    relevant = rank_relevant(way.queries, way.gallery, way.positives)
    sizes = np.bincount(way.cluster)
    found: dict[str, Metric] = {}
    for label, name, k in [
        *((f"true_recall@{k}", "recall", k) for k in ks),
        *((f"{name}@{DEPTH}", name, DEPTH) for name in ("mrr", "ndcg", "map")),
    ]:
        values = METRICS[name](relevant, k)
        low, high = stats.mean_interval(values, way.cluster) or (None, None)
        found[f"{way.name}_{label}"] = Metric(float(values.mean()), low, high, _chance(way, name, k), len(sizes))
    median = float(np.median(ranks.ranks))
    return found | {f"{way.name}_median_rank": Metric(median, n=len(sizes), lower_is_better=True)}


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
    asked = prediction.asked
    found = _found(prediction.images[asked], prediction.texts, _text_ids(prediction), ranks.ranks)
    for i, place in enumerate(asked):
        entry = prediction.entries[place]
        record = {"id": entry.id, "query": "image", "rank": int(ranks.ranks[i]), "tied": bool(ranks.tied[i])}
        yield record | ({"top": found[i]} if i in found else {})


def _text_records(prediction: RetrievalPrediction, ranks: Ranks) -> Iterator[dict[str, Any]]:
    names = [entry.id for entry in prediction.entries]
    asked, ids = _asked_captions(prediction), _text_ids(prediction)
    found = _found(prediction.texts[asked], prediction.images, names, ranks.ranks)
    captions = [text for entry in prediction.entries for text in entry.texts]
    for i, place in enumerate(asked):
        record = {
            "id": ids[place],
            "query": "text",
            "image": names[prediction.owner[place]],
            "text": captions[place],
            "rank": int(ranks.ranks[i]),
            "tied": bool(ranks.tied[i]),
        }
        yield record | ({"top": found[i]} if i in found else {})


def _notices(prediction: RetrievalPrediction, ks: Sequence[int], *directions: Ranks) -> Iterator[Notice]:
    for gallery, size in (("images", len(prediction.images)), ("captions", len(prediction.texts))):
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
