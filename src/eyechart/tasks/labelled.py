"""One label per sample: the metrics and records that zero-shot classification and every probe share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eyechart import stats
from eyechart.manifest import Entry
from eyechart.metrics.classification import LabelRanking, f1_macro, per_class_recall, predicted_classes
from eyechart.tasks.measured import measured
from eyechart.types import Fact, MeanOf, Metric, Notice

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class LabelChance:
    """What a classifier gets that never looks."""

    accuracy: Callable[[int], float]
    """Within k guesses."""
    recall: float
    """The mean over classes."""


def label_metrics(
    ranking: LabelRanking, labels: Ints, n_classes: int, chance: LabelChance, *, prefix: str = "", full: bool
) -> dict[str, Metric]:
    """Compute acc1, acc5 (from five classes on) and mean_per_class_recall; with ``full`` also f1_macro.

    Args:
        ranking: Where the true class stands for each sample.
        labels: The true classes.
        n_classes: How many there are to choose from.
        chance: What a classifier gets that never looks.
        prefix: Of the metrics' names.
        full: Whether the less common metrics are wanted too.
    """
    metrics = {f"{prefix}acc{k}": _accuracy(ranking.ranks, k, chance.accuracy(k)) for k in (1, 5) if n_classes >= k}
    correct = ranking.ranks == 1
    metrics[f"{prefix}mean_per_class_recall"] = measured(
        float(np.mean(list(per_class_recall(correct, labels, n_classes).values()))),
        stats.mean_recall_interval(correct, labels),
        chance=chance.recall,
        n=len(labels),
        mean_of=MeanOf("rank", 1, balance="label"),
    )
    if full:
        metrics[f"{prefix}f1_macro"] = Metric(f1_macro(predicted_classes(ranking, labels), labels), n=len(labels))
    return metrics


def no_acc5(n_classes: int, prefix: str = "") -> tuple[dict[str, Fact], list[Notice]]:
    """Say so where there are too few classes for acc5: it is null in the file, as other tools write it."""
    if n_classes >= 5:
        return {}, []
    text = f"With {n_classes} classes {prefix}acc5 would be 1 whatever the model does: it is null."
    return {f"{prefix}acc5": None}, [Notice("no_acc5", 1, text)]


def label_records(entries: Sequence[Entry], ranking: LabelRanking) -> list[dict[str, Any]]:
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


def label_notices(ranking: LabelRanking) -> list[Notice]:
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


def _accuracy(ranks: Ints, k: int, chance: float) -> Metric:
    hits = ranks <= k
    return measured(
        float(hits.mean()),
        stats.proportion(int(hits.sum()), len(hits)),
        chance=chance,
        n=len(hits),
        primary=k == 1,
        mean_of=MeanOf("rank", k),
    )
