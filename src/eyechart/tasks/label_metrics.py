"""Metrics and records of labelled samples, and metrics by group and of the worst group."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from eyechart import stats
from eyechart.errors import DataError, did_you_mean
from eyechart.manifest import Entry
from eyechart.messages import UserMessage
from eyechart.metrics.classification import LabelRanking, f1_macro, per_class_recall, predicted_classes
from eyechart.metrics.vectors import Ints
from eyechart.settings.evaluation import MetricSettings
from eyechart.settings.tasks import TaskSettings
from eyechart.tasks.base import Prediction, Task, counted, make_metric
from eyechart.types import MeanOf, Metric, Outcome


def label_outcome(
    prediction: Prediction,
    ranking: LabelRanking,
    n_classes: int,
    settings: MetricSettings,
    *,
    chance: Callable[[int], float],
    chance_recall: float,
    prefix: str = "",
    draws: Ints | None = None,
) -> Outcome:
    """Compute acc1, acc5 (from five classes on) and mean_per_class_recall, and a record per sample.

    Below five classes acc5 is null, as in other tools; ``--metrics full`` adds f1_macro. ``chance`` is the top-k
    accuracy of a classifier that ignores the image, ``chance_recall`` its mean per-class recall. For few-shot
    classifiers, ``draws`` has the rank of the true class by training draw (rows) and sample; the first row is that of
    ``ranking``. Intervals then cover the choice of training images.
    """
    labels, correct = labels_of(prediction.entries), ranking.ranks == 1
    recall = per_class_recall(correct, labels, n_classes)
    fields = () if draws is None else ("rank", *(f"rank_{number}" for number in range(2, len(draws) + 1)))
    also = ("training draws",) if fields else ()

    def over_draws(interval: stats.Interval | None, k: int, weights: Any = 1.0) -> stats.Interval | None:
        return interval if draws is None else stats.widen_for_draws(interval, (draws <= k) * weights)

    metrics = {}
    for k in (1, 5) if n_classes >= 5 else (1,):
        hits = ranking.ranks <= k
        metrics[f"{prefix}acc{k}"] = make_metric(
            float(hits.mean()),
            over_draws(stats.proportion(int(hits.sum()), len(hits)), k),
            *also,
            chance=chance(k),
            n=len(hits),
            primary=k == 1,
            mean_of=MeanOf("rank", k, draws=fields),
        )
    sizes = np.bincount(labels)
    metrics[f"{prefix}mean_per_class_recall"] = make_metric(
        float(np.mean(list(recall.values()))),
        over_draws(stats.mean_recall_interval(correct, labels), 1, len(labels) / len(recall) / sizes[labels]),
        *also,
        chance=chance_recall,
        n=len(labels),
        mean_of=MeanOf("rank", 1, balance="label", draws=fields),
    )
    if settings.metrics == "full":
        metrics[f"{prefix}f1_macro"] = Metric(f1_macro(predicted_classes(ranking, labels), labels), n=len(labels))
    records = _label_records(prediction.entries, ranking, fields, draws)
    few = "With {n_classes} classes {prefix}acc5 would always be 1, so it is null."
    return Outcome(
        metrics=metrics,
        records=records,
        notices=(
            *prediction.notices,
            *counted("ties", ranking.ties, "{n} samples tie with another class; ties count as wrong."),
            *counted("no_acc5", int(n_classes < 5), few, n_classes=n_classes, prefix=prefix),
        ),
        details={"per_class_recall": recall},
        facts={f"{prefix}acc5": None} if n_classes < 5 else {},
    )


def _label_records(
    entries: Sequence[Entry], ranking: LabelRanking, fields: Sequence[str], draws: Ints | None
) -> list[dict[str, Any]]:
    """Return a record per sample; ``fields`` name the ranks of each training draw."""
    records: list[dict[str, Any]] = [
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
        for entry, rank, top, scores, own in zip(
            entries, ranking.ranks, ranking.top, ranking.top_scores, ranking.label_scores, strict=True
        )
    ]
    for name, ranks in zip(fields[1:], [] if draws is None else draws[1:], strict=True):
        for record, rank in zip(records, ranks.tolist(), strict=True):
            record[name] = rank
    return records


def labels_of(entries: Sequence[Entry]) -> Ints:
    """Return the labels of samples that all have one."""
    return np.array([entry.label for entry in entries], np.int64)


# Metrics per group and of the worst group, for any task and any metadata column.
#
# Each group is scored by the task itself; nothing is predicted again.


def group_rules(columns: Sequence[str], known: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the columns to group by: the user's, or the catalogue's for the dataset (``known``).

    The catalogue's has a ``field``, values to ``skip``, and the name that DataComp gives to the worst group's accuracy
    (``metric``, within ``k`` guesses).
    """
    rules = [{"field": column} for column in columns if column != known.get("field")]
    if known and (not columns or known["field"] in columns):
        rules.insert(0, dict(known))
    return rules


def check_columns(entries: Sequence[Entry], rules: Sequence[Mapping[str, Any]]) -> None:
    """Reject a column that no sample has, before anything is embedded."""
    columns = dict.fromkeys(key for entry in entries for key in entry.meta)
    for rule in rules:
        if rule["field"] not in columns:
            there = UserMessage("Available columns: {columns}.", columns=", ".join(columns) or "none")
            raise DataError(
                "No sample has a column {field!r} to group by.",
                advice=did_you_mean(rule["field"], columns, there),
                field=rule["field"],
            )


def score_with_groups(task: Task, prediction: Prediction, settings: TaskSettings) -> Outcome:
    """Score all samples and, if grouped, each group alone.

    For every metric m and column c there is then ``m_worst_c``, the value of the worst group with that group's
    interval, and ``details["groups"]`` has all values.
    """
    outcome: Outcome = task.score(prediction, settings)
    metrics, tables, notices = dict(outcome.metrics), {}, list(outcome.notices)
    for rule in settings.groups:
        column = rule["field"]
        groups = _groups(prediction.entries, column)
        without = len(prediction.entries) - sum(map(len, groups.values()))
        notices += counted("no_group", without, "{n} samples have no {column}, hence no group.", column=column)
        scored: dict[str, Mapping[str, Metric]] = {}
        for group, rows in groups.items():
            try:
                scored[group] = task.score(prediction.only(rows), settings).metrics
            except DataError as error:
                why = "{column} {group}: {reason}"
                notices += counted("group_without_score", 1, why, column=column, group=group, reason=error.message)
        tables[column] = {
            group: {
                "n": max((metric.n or 0 for metric in found.values()), default=0),
                **{name: metric.value for name, metric in found.items()},
            }
            for group, found in scored.items()
        }
        skipped = {str(value) for value in rule.get("skip", ())}
        judged = [found for group, found in scored.items() if group not in skipped]
        worst: dict[str, Metric] = {}
        for name, whole in outcome.metrics.items():
            if values := [found[name] for found in judged if name in found]:
                choose = max if whole.lower_is_better else min
                least = choose(values, key=lambda metric: metric.value)
                # Not a mean over records, which belong to all groups, and never the primary metric.
                worst[name] = replace(least, primary=False, mean_of=None, function="")
        metrics |= {f"{name}_worst_{column}": metric for name, metric in worst.items()}
        accuracy = worst.get(f"acc{rule.get('k', 1)}")
        if rule.get("metric") and accuracy is not None:  # not every task on this dataset has an accuracy
            metrics[rule["metric"]] = accuracy
    details = {**outcome.details, "groups": tables} if tables else outcome.details
    return replace(outcome, metrics=metrics, notices=tuple(notices), details=details)


def _groups(entries: Sequence[Entry], column: str) -> dict[str, np.ndarray]:
    """Return the positions of each value of a column, sorted by value; samples without a value are in no group."""
    found: dict[str, list[int]] = {}
    for i, entry in enumerate(entries):
        value = entry.meta.get(column)
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # 5.0 is 5
        if value is not None and str(value).strip() not in ("", "nan"):
            found.setdefault(str(value), []).append(i)
    return {group: np.array(found[group], np.int64) for group in sorted(found)}
