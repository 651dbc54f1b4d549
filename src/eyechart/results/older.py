"""Metrics of files that hold plain numbers only: those of version 0.1 and of other tools.

The only place where a metric's name is read for its meaning, because there a name is all that there is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from eyechart.io.untrusted import is_number
from eyechart.types import MeanOf, Metric, RecordForm

LOWER_IS_BETTER = re.compile(r"(ece|adaptive_ece|nll|brier|accuracy_variance|.*_median_rank)(_worst_.*)?")
POINTS = re.compile(r"(nll|CIDEr|.*_median_rank)(_worst_.*)?")
"""No fractions, even where they are small."""
PRIMARY = (
    "lp_acc1",
    "knn_acc1",
    "acc1",
    "mean_average_precision",
    r"(?:image|text)_retrieval_recall@(\d{1,9})",
    "acc",
    "accuracy",
    "Overall",
    "main_score",
    "ndcg_at_10",
    "nmi",
    "spearman",
    "CIDEr",
    "score",
)
"""What stands for a benchmark unless the file names another: the first of these that it has, at the smallest k."""
_ACCURACY = re.compile(r"(?:lp_|knn_)?acc([15])")
_RECALL = re.compile(r"(image|text)_retrieval_recall@(\d{1,9})")
_CORRECT = frozenset({"accuracy", "Overall", "cluster_acc", "acc"})
FORMS: Mapping[str, RecordForm] = {
    "zeroshot_classification": "label",
    "linear_probe": "label",
    "logistic_probe": "label",
    "knn": "label",
    "zeroshot_retrieval": "ranking",
    "text_retrieval": "ranking",
    "questions": "question",
    "clustering": "question",
    "image_caption_selection": "question",
}
"""The form of the records that version 0.1 wrote for a task."""
MEASURES: Mapping[str, str] = {
    "zeroshot_classification": "classification",
    "zeroshot_retrieval": "retrieval",
    "linear_probe": "probe",
    "logistic_probe": "probe",
    "knn": "probe",
    "visual_sts": "similarity",
    "image_caption_selection": "selection",
    "vlmevalkit": "questions",
}
"""What a task measures, where that is not its name."""


def measures_of(task: str) -> str:
    """Say in a word what a task measures."""
    return MEASURES.get(task, task.replace("_", " "))


def as_values(numbers: Mapping[str, float], body: Mapping[str, Any]) -> dict[str, Metric]:
    """Return the metrics of a file without ``metric_values``."""
    intervals, chance, counts = (body.get(key) or {} for key in ("intervals", "chance", "counts"))
    primary = _primary(numbers, (body.get("data") or {}).get("main_metric"))
    found = {}
    for name, value in numbers.items():
        low, high = _pair(intervals.get(name))
        level = chance.get(name)
        found[name] = Metric(
            value,
            low,
            high,
            None if level is None or not is_number(level) else float(level),
            int(counts["scored"]) if is_number(counts.get("scored")) else None,
            lower_is_better=LOWER_IS_BETTER.fullmatch(name) is not None,
            primary=name in primary,
            points=POINTS.fullmatch(name) is not None,
            mean_of=_mean_of(name, body),
            function="mean_average_precision" if name == "mean_average_precision" and body.get("records") else "",
        )
    return found


def form_of(body: Mapping[str, Any]) -> RecordForm:
    """Return the form of the records of a 0.1 file."""
    if "mean_average_precision" in body["metrics"]:
        return "labels"
    return FORMS.get(str(body.get("task")), "")


def _primary(numbers: Mapping[str, float], named: object) -> frozenset[str]:
    if named:
        return frozenset([named] if isinstance(named, str) else map(str, named))  # type: ignore[call-overload]
    for pattern in PRIMARY:
        present = {name: match for name in numbers if (match := re.fullmatch(pattern, name))}
        if present:
            ks = {name: int(match[1]) if match.groups() else 0 for name, match in present.items()}
            return frozenset(name for name, k in ks.items() if k == min(ks.values()))
    return frozenset(sorted(numbers)[:1])


def _mean_of(name: str, body: Mapping[str, Any]) -> MeanOf | None:
    if not body.get("records"):
        return None
    if found := _RECALL.fullmatch(name):
        way = {"image": "text", "text": "image"}[found[1]]
        return MeanOf("rank", int(found[2]), {"query": way}, cluster="image" if way == "text" else "")
    if found := _ACCURACY.fullmatch(name):
        return MeanOf("rank", int(found[1]))
    if name.endswith("mean_per_class_recall"):
        return MeanOf("rank", 1, balance="label")
    if name in _CORRECT:
        return MeanOf("correct")
    return MeanOf(name) if name in ("CIDEr", "ROUGE_L", "ndcg_at_10") else None


def _pair(value: Any) -> tuple[float | None, float | None]:
    if value is None:
        return None, None
    low, high = value
    return (float(low), float(high)) if is_number(low) and is_number(high) else (None, None)
