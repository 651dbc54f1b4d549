"""The metrics of both searches between images and captions, with chance and the best that any model can reach."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from eyechart import stats
from eyechart.metrics.ranking import METRICS, rank_relevant
from eyechart.metrics.ranking_chance import CHANCE
from eyechart.metrics.repeated import best_image_recall, best_text_recall, chance_text_recall
from eyechart.metrics.retrieval import Ranks
from eyechart.tasks.measured import measured
from eyechart.tasks.retrieval.caption_search import Direction, Ints, RetrievalPrediction, Search
from eyechart.types import Metric

DEPTH = 10
"""The k of MRR, nDCG and MAP."""
DISTINCT = "_distinct_texts"
"""Ends the names of metrics, and of the records' ranks, with equal texts as one."""

Floats = NDArray[np.float64]


def recalls(found: Search, ks: Sequence[int], suffix: str = "") -> dict[str, Metric]:
    """Compute recall@k of both directions; those at the smallest k stand for the benchmark.

    With equal texts as one (``suffix``: `DISTINCT`) they have other names, and stand for nothing.
    """
    return {
        f"{way.name}_recall@{k}{suffix}": replace(
            _hit_rate(way, ranks, k, f"rank{suffix}"), primary=k == min(ks) and not suffix
        )
        for k in ks
        for way, ranks in found.both
    }


def with_repeats(
    metrics: Mapping[str, Metric], prediction: RetrievalPrediction, number: Ints, ks: Sequence[int]
) -> dict[str, Metric]:
    """Correct chance, and add the best reachable value, where captions repeat (``number``: their texts)."""
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


def full_metrics(
    way: Direction, ranks: Ranks, ks: Sequence[int], *, repeats: bool
) -> tuple[dict[str, Metric], dict[str, Floats]]:
    """Compute what looks at all right answers, and the median rank of the first.

    With ``repeats`` in the gallery their chance is not known and left out.

    Returns:
        The metrics, and for each of their names in the records the value of every query.
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
    median = Metric(float(np.median(ranks.ranks)), n=n, lower_is_better=True, points=True)
    return found | {f"{way.name}_median_rank": median}, fields


def _hit_rate(way: Direction, ranks: Ranks, k: int, field: str) -> Metric:
    """Hit rate at k, with images as the independent units, and what chance would give."""
    hits = (ranks.ranks <= k).astype(np.float64)
    return replace(_mean(way, hits), chance=_chance(way, "hit_rate", k), mean_of=way.mean_of(field, k))


def _mean(way: Direction, values: Floats) -> Metric:
    return measured(float(values.mean()), stats.mean_interval(values, way.cluster), n=len(np.unique(way.cluster)))


def _chance(way: Direction, name: str, k: int) -> float:
    chance: Callable[[int, int, int, int], float] = CHANCE[name]
    counts, times = np.unique(way.positives.counts(), return_counts=True)
    levels = [chance(len(way.gallery), int(right), int(right), k) for right in counts]
    return float(np.average(levels, weights=times))


def _with_best(metric: Metric, best: float) -> Metric:
    """Say how far a model can get, if that is not all the way."""
    return metric if best == 1 else replace(metric, best=best)
