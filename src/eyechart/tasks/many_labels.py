"""Several labels per image: the mean average precision of zero-shot classification."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from eyechart import stats
from eyechart.errors import DataError, UsageError
from eyechart.metrics.classification import average_precision
from eyechart.metrics.vectors import zero_rows
from eyechart.tasks.measured import measured
from eyechart.tasks.prompts import prompts_of
from eyechart.types import Notice, Outcome

if TYPE_CHECKING:
    from eyechart.tasks.zeroshot_classification import ClassificationPrediction

LEFT_OUT = "leave_out"


@dataclass(frozen=True, slots=True)
class EmptyClassRule:
    """What a class without positives does to the mean average precision."""

    counts: bool
    function: str
    """How the report computes it from records."""
    said: str


EMPTY_CLASSES = {
    LEFT_OUT: EmptyClassRule(counts=False, function="mean_average_precision", said="are left out"),
    "zero": EmptyClassRule(counts=True, function="mean_average_precision_of_all_classes", said="count 0"),
}
"""Ours, and CLIP_benchmark's."""


def check_rule(name: object) -> None:
    """Refuse a rule that there is not."""
    if name not in EMPTY_CLASSES:
        raise UsageError(f"empty_classes must be one of {', '.join(EMPTY_CLASSES)}, not {name!r}.")


def score_many(prediction: ClassificationPrediction, settings: Mapping[str, Any]) -> Outcome:
    """Rank the images for each class; the metric is the mean over classes of their average precision."""
    n_classes = len(prediction.info.classnames)
    present = np.zeros((len(prediction.entries), n_classes), bool)
    for row, entry in enumerate(prediction.entries):
        present[row, list(entry.labels)] = True
    scores = prediction.images @ prediction.classes.T
    scores[zero_rows(prediction.images)] = -1  # similar to nothing: no class finds it before another image
    judged = [i for i in range(n_classes) if present[:, i].any()]
    if not judged:
        raise DataError(f"{prediction.info.name}: no image has any label, so there is nothing to rank.")
    precision = {i: average_precision(scores[:, i], present[:, i]) for i in judged}
    empty = n_classes - len(judged)
    rule = EMPTY_CLASSES[settings.get("empty_classes", LEFT_OUT)]
    share = len(judged) / n_classes if rule.counts else 1.0
    interval = stats.average_precision_interval(scores[:, judged], present[:, judged])
    metric = measured(
        share * float(np.mean(list(precision.values()))),
        interval and stats.Interval(share * interval.low, share * interval.high),
        chance=share * float(present[:, judged].mean()),
        n=len(prediction.entries),
        primary=True,
        function=rule.function,
    )
    notices = [Notice("class_without_positives", empty, f"{empty} classes have no positive and {rule.said}.")]
    records = [
        {"id": entry.id, "labels": list(entry.labels), "scores": [round(float(value), 8) for value in row]}
        for entry, row in zip(prediction.entries, scores, strict=True)
    ]
    return Outcome(
        metrics={"mean_average_precision": metric},
        records=records,
        notices=(*prediction.notices, *(notices if empty else ())),
        details=prompts_of(prediction.info) | {"per_class_ap": precision},
    )
