"""One label per sample: the metrics and records that zero-shot classification and every probe share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eyechart import stats
from eyechart.manifest import Entry
from eyechart.metrics.classification import Ranking, f1_macro, per_class_recall, predicted_classes
from eyechart.types import Metric, Notice

Ints = NDArray[np.int64]


def label_metrics(
    ranking: Ranking, labels: Ints, n_classes: int, chance: Callable[[int], float], *, prefix: str = "", full: bool
) -> dict[str, Metric]:
    """Compute acc1, acc5 (from five classes on) and mean_per_class_recall; with ``full`` also f1_macro.

    Args:
        ranking: Where the true class stands for each sample.
        labels: The true classes.
        n_classes: How many there are to choose from.
        chance: The accuracy at k of a scorer that never looks.
        prefix: Of the metrics' names.
        full: Whether the less common metrics are wanted too.
    """
    metrics = {f"{prefix}acc{k}": _proportion(ranking.ranks <= k, chance(k)) for k in (1, 5) if n_classes >= k}
    correct = ranking.ranks == 1
    recall = per_class_recall(correct, labels, n_classes)
    low, high = stats.mean_recall_interval(correct, labels) or (None, None)
    metrics[f"{prefix}mean_per_class_recall"] = Metric(
        float(np.mean(list(recall.values()))), low, high, 1 / n_classes, len(labels)
    )
    if full:
        metrics[f"{prefix}f1_macro"] = Metric(f1_macro(predicted_classes(ranking, labels), labels), n=len(labels))
    return metrics


def label_records(entries: Sequence[Entry], ranking: Ranking) -> list[dict[str, Any]]:
    """Make one record per sample: label, prediction, rank and the five best classes."""
    rows = zip(entries, ranking.ranks, ranking.top, ranking.top_scores, ranking.label_scores, strict=True)
    return [
        {
            "id": entry.id,
            "label": entry.label,
            "prediction": int(top[0]),
            "rank": int(rank),
            "correct": bool(rank == 1),
            "top": top.tolist(),
            "scores": [round(float(score), 6) for score in scores],
            "label_score": round(float(own), 6),
        }
        for entry, rank, top, scores, own in rows
    ]


def label_notices(ranking: Ranking) -> list[Notice]:
    """Say how many samples the tie rule decided."""
    if not ranking.ties:
        return []
    return [Notice("ties", ranking.ties, f"{ranking.ties} samples tie with another class; ties count as wrong.")]


def labels_of(entries: Sequence[Entry]) -> Ints:
    """Return the labels of samples that all have one."""
    return np.array([entry.label for entry in entries], np.int64)


def wants_full(settings: Mapping[str, Any]) -> bool:
    """Tell whether ``--metrics full`` was asked for."""
    return settings.get("metrics") == "full"


def _proportion(hits: NDArray[np.bool_], chance: float) -> Metric:
    interval = stats.proportion(int(hits.sum()), len(hits))
    return Metric(float(hits.mean()), interval.low, interval.high, chance, len(hits))
