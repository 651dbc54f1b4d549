"""Search between images and captions in both directions: ranks, metrics and records."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Self

import numpy as np

from eyechart import stats
from eyechart.metrics.retrieval import (
    METRICS,
    Ranks,
    rank_both_ways,
    rank_positives,
    rank_relevant,
    rounded_scores,
    top_items,
)
from eyechart.metrics.retrieval_chance import best_image_recall, best_text_recall, chance_text_recall, mean_chance
from eyechart.metrics.search import Positives, score_lists
from eyechart.metrics.vectors import AnyVectors, Floats, Ints
from eyechart.tasks.base import Prediction, make_metric
from eyechart.types import MeanOf, Metric

DEPTH = 10
"""The k of MRR, nDCG and MAP."""
DISTINCT = "_distinct_texts"
"""Suffix of metrics and record fields that count equal texts as one."""
EXAMPLES = 200
"""Number of hardest queries per direction whose records list what was retrieved instead."""
SHOWN = 5

Fields = Mapping[str, Mapping[int, float]]
"""Additional record fields by name, one value per query."""


@dataclass(frozen=True)
class RetrievalPrediction(Prediction):
    """Unit vectors of images and captions, or several vectors of each, and the image of each caption."""

    images: AnyVectors
    texts: AnyVectors
    owner: Ints
    """For each caption, the position of its image."""
    asked: Ints
    """The images used as queries, along with their captions; the gallery is always complete."""

    def only(self, keep: Ints) -> Self:
        """Return the prediction with fewer queries and the same gallery."""
        return replace(self, asked=self.asked[keep], failures=())

    @property
    def captions(self) -> list[str]:
        """The captions, grouped by image."""
        return [text for entry in self.entries for text in entry.texts]

    @property
    def asked_captions(self) -> Ints:
        """The captions used as queries."""
        return np.flatnonzero(np.isin(self.owner, self.asked))

    @property
    def text_numbers(self) -> Ints:
        """Number the different texts in order of appearance; equal captions share a number."""
        known: dict[str, int] = {}
        return np.array([known.setdefault(text, len(known)) for text in self.captions], np.int64)


@dataclass(frozen=True)
class Direction:
    """One search direction: queries, gallery, relevant items and their ranks, and the image each query belongs to."""

    name: str
    query: str
    """Kind of the queries in the records: ``image`` or ``text``."""
    queries: AnyVectors
    gallery: AnyVectors
    positives: Positives
    cluster: Ints
    ranks: Ranks

    def mean_of(self, field: str, at_most: int | None = None) -> MeanOf:
        """Describe a metric as the mean over the records of this direction's queries."""
        return MeanOf(field, at_most, {"query": self.query}, cluster="image" if self.query == "text" else "")


Directions = tuple[Direction, Direction]
"""Captions search images, and images search captions."""


def search(
    prediction: RetrievalPrediction, number: Ints, pairs: tuple[Ints, Ints] | None = None
) -> tuple[Directions, Ints]:
    """Search in both directions; also return the first caption of each text query.

    Captions with the same ``number`` count as one text: any image that has it is right, and vice versa. Published
    numbers do not merge equal texts: every caption is a separate query and item. ``pairs`` says which text belongs to
    which image; by default each to the images that have it.
    """
    images, asked, captions = prediction.images, prediction.asked, prediction.asked_captions
    _, first = np.unique(number, return_index=True)
    texts = prediction.texts if len(first) == len(number) else prediction.texts[first]
    chosen, at = np.unique(number[captions], return_index=True)
    text_query, image_query = _places(chosen, len(first)), _places(asked, len(images))
    # Each pair of a text and an image that has it, once.
    text, image = pairs or np.divmod(np.unique(number * len(images) + prediction.owner), len(images))
    of_text, of_image = text_query[text] >= 0, image_query[image] >= 0
    to_image = Positives.of_pairs(text_query[text[of_text]], image[of_text], len(chosen))
    to_text = Positives.of_pairs(image_query[image[of_image]], text[of_image], len(asked))
    if len(asked) == len(images):
        ranks = rank_both_ways(images, texts, image, text)
    else:
        ranks = rank_positives(texts[chosen], images, to_image), rank_positives(images[asked], texts, to_text)
    cluster = image_query[prediction.owner[captions[at]]]
    ways = (
        Direction("image_retrieval", "text", texts[chosen], images, to_image, cluster, ranks[0]),
        Direction("text_retrieval", "image", images[asked], texts, to_text, np.arange(len(asked)), ranks[1]),
    )
    return ways, captions[at]


def shared_pairs(prediction: RetrievalPrediction) -> tuple[Ints, Ints]:
    """Pair each caption with every image that has the same text."""
    number, images = prediction.text_numbers, len(prediction.images)
    text, image = np.divmod(np.unique(number * images + prediction.owner), images)
    counts = np.bincount(text)
    starts = np.concatenate([[0], np.cumsum(counts)])
    captions = np.repeat(np.arange(len(number)), counts[number])
    found = np.concatenate([image[starts[n] : starts[n + 1]] for n in number])
    return captions, found


def _places(chosen: Ints, n: int) -> Ints:
    """Return the position of each of n items among the chosen ones, or -1."""
    place = np.full(n, -1)
    place[chosen] = np.arange(len(chosen))
    return place


def recalls(ways: Directions, ks: Sequence[int], suffix: str = "") -> dict[str, Metric]:
    """Compute recall@k of both directions; those at the smallest k are primary.

    With equal texts counted as one (``suffix``: `DISTINCT`) they have other names and are never primary.
    """
    metrics = {}
    for k, way in product(ks, ways):
        metrics[f"{way.name}_recall@{k}{suffix}"] = replace(
            _mean(way, (way.ranks.ranks <= k).astype(np.float64)),
            chance=_chance(way, "hit_rate", k),
            mean_of=way.mean_of(f"rank{suffix}", k),
            primary=k == min(ks) and not suffix,
        )
    return metrics


def with_repeats(
    metrics: Mapping[str, Metric], prediction: RetrievalPrediction, number: Ints, ks: Sequence[int]
) -> dict[str, Metric]:
    """Correct chance, and add the highest reachable value, if captions repeat (``number``: text numbers)."""
    asked, captions, owner = prediction.asked, prediction.asked_captions, prediction.owner
    out = dict(metrics)
    for k in ks:
        by_text, by_image = f"image_retrieval_recall@{k}", f"text_retrieval_recall@{k}"
        out[by_text] = _with_best(out[by_text], best_image_recall(number[captions], owner[captions], k))
        chance = chance_text_recall(number, owner, asked, k)
        best = best_text_recall(number, owner, asked, k)
        out[by_image] = replace(_with_best(out[by_image], best), chance=chance)
    return out


def mean_recall(k: int, metrics: Mapping[str, Metric]) -> Metric:
    """Average the hit rates of the two directions: DataComp's main metric for Flickr and COCO."""
    both = [metrics[f"{way}_retrieval_recall@{k}"] for way in ("image", "text")]
    average = Metric(
        sum(metric.value for metric in both) / 2,
        chance=sum(metric.chance or 0.0 for metric in both) / 2,
        n=both[1].n,
    )
    return _with_best(average, sum(1.0 if metric.best is None else metric.best for metric in both) / 2)


def full_metrics(way: Direction, ks: Sequence[int], *, repeats: bool) -> tuple[dict[str, Metric], dict[str, Floats]]:
    """Compute the metrics over all relevant items, and the median rank of the first.

    With ``repeats`` in the gallery their chance is unknown and omitted. Also return the value of every query, by its
    name in the records.
    """
    relevant = rank_relevant(way.queries, way.gallery, way.positives)
    found: dict[str, Metric] = {}
    fields: dict[str, Floats] = {}
    for label, name, k in [
        *((f"true_recall@{k}", "recall", k) for k in ks),
        *((f"{name}@{DEPTH}", name, DEPTH) for name in ("mrr", "ndcg", "map")),
    ]:
        fields[label] = METRICS[name](relevant, k)
        chance = None if repeats else _chance(way, name, k)
        found[f"{way.name}_{label}"] = replace(_mean(way, fields[label]), chance=chance, mean_of=way.mean_of(label))
    n = len(np.unique(way.cluster))
    median = Metric(float(np.median(way.ranks.ranks)), n=n, lower_is_better=True, points=True)
    return found | {f"{way.name}_median_rank": median}, fields


def _mean(way: Direction, values: Floats) -> Metric:
    """Average over queries; images are the independent units."""
    return make_metric(float(values.mean()), stats.mean_interval(values, way.cluster), n=len(np.unique(way.cluster)))


def _chance(way: Direction, name: str, k: int) -> float:
    counts = way.positives.counts()
    return mean_chance(name, np.column_stack([np.full(len(counts), len(way.gallery)), counts, counts]), k)


def _with_best(metric: Metric, best: float) -> Metric:
    """Add the highest reachable value if it is below 1."""
    return metric if best == 1 else replace(metric, best=best)


def search_records(
    prediction: RetrievalPrediction, ways: Directions, image_fields: Fields, text_fields: Fields
) -> list[dict[str, Any]]:
    """Return the records of all image queries, then of all caption queries."""
    names = [entry.id for entry in prediction.entries]
    texts = [f"{entry.id}#{i}" for entry in prediction.entries for i in range(len(entry.texts))]
    captions, words = prediction.asked_captions, prediction.captions
    images = [{"id": names[place], "query": "image"} for place in prediction.asked]
    queries = [
        {"id": texts[place], "query": "text", "image": names[prediction.owner[place]], "text": words[place]}
        for place in captions
    ]
    return [
        *_records(images, ways[1], texts, image_fields),
        *_records(queries, ways[0], names, text_fields),
    ]


def _records(
    heads: Sequence[Mapping[str, Any]], way: Direction, names: Sequence[str], fields: Fields
) -> Iterator[dict[str, Any]]:
    ranks = way.ranks
    # The hardest queries, those with the worst ranks above 1, list what was retrieved instead.
    order = np.argsort(-ranks.ranks, kind="stable")[:EXAMPLES]
    hardest = order[ranks.ranks[order] > 1]
    listed: dict[int, dict[str, Any]] = {}
    if len(hardest):
        queries = way.queries[hardest]
        items = top_items(queries, way.gallery, SHOWN)
        for query, row, scores in zip(hardest.tolist(), items, score_lists(items, queries, way.gallery), strict=True):
            shown = rounded_scores(scores)
            listed[query] = {"similarity": shown[0], "top": [names[i] for i in row], "scores": shown}
    similar = {"similarity": rounded_scores(ranks.top), "relevant_similarity": rounded_scores(ranks.own)}
    for i, head in enumerate(heads):
        record = {**head, "rank": int(ranks.ranks[i]), "tied": bool(ranks.tied[i])}
        record |= {name: scores[i] for name, scores in similar.items() if scores[i] is not None}
        record |= {name: values[i] for name, values in fields.items() if i in values}
        yield record | listed.get(i, {})
