"""Figures by group and of the worst group, for any task and any column of metadata.

A group's figures are the task's own score of the group's samples; nothing is predicted again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from eyechart.errors import DataError, nearest
from eyechart.manifest import Entry
from eyechart.tasks.base import Prediction, Task
from eyechart.types import Metric, Notice, Outcome


def group_settings(columns: Sequence[str], known: Mapping[str, Any]) -> dict[str, Any]:
    """Say what to group by: the columns that the user names, or the one that the catalogue knows for the dataset.

    Args:
        columns: Names of metadata columns.
        known: The catalogue's ``groups``: ``field``, values to ``skip``, and the name that DataComp gives to the
            worst group's accuracy (``metric``, within ``k`` guesses).
    """
    rules = [{"field": column} for column in columns if column != known.get("field")]
    if known and (not columns or known["field"] in columns):
        rules.insert(0, dict(known))
    return {"groups": rules} if rules else {}


def check_columns(entries: Sequence[Entry], settings: Mapping[str, Any]) -> None:
    """Refuse a column that no sample has, before anything is embedded."""
    columns = dict.fromkeys(key for entry in entries for key in entry.meta)
    for rule in settings.get("groups", ()):
        if rule["field"] not in columns:
            near = nearest(rule["field"], columns)
            there = f"Did you mean {near[0]}?" if near else f"There are: {', '.join(columns) or 'none'}."
            raise DataError(f"No sample has a column {rule['field']!r} to group by.", advice=there)


def score_with_groups(task: Task, prediction: Prediction, settings: Mapping[str, Any]) -> Outcome:
    """Score everything and, if there is something to group by, each group alone.

    For every metric m and column c there is then ``m_worst_c``, and ``details["groups"]`` has all figures.
    """
    outcome: Outcome = task.score(prediction, settings)
    metrics, tables, notices = dict(outcome.metrics), {}, list(outcome.notices)
    for rule in settings.get("groups", ()):
        column = rule["field"]
        scored, groups = {}, _groups(prediction.entries, column)
        without = len(prediction.entries) - sum(map(len, groups.values()))
        if without:
            notices.append(Notice("samples_without_group", without, f"{without} samples have no {column!r}: no group."))
        for group, rows in groups.items():
            try:
                scored[group] = task.score(prediction.only(rows), settings).metrics
            except DataError as error:
                notices.append(Notice("group_without_score", 1, f"{column} {group}: {error.message}"))
        tables[column] = {group: _row(found) for group, found in scored.items()}
        skipped = {str(value) for value in rule.get("skip", ())}
        worst = _worst([found for group, found in scored.items() if group not in skipped], outcome.metrics)
        metrics |= {f"{name}_worst_{column}": metric for name, metric in worst.items()}
        accuracy = worst.get(f"acc{rule.get('k', 1)}")
        if rule.get("metric") and accuracy is not None:  # not every task that reads the dataset has an accuracy
            metrics[rule["metric"]] = accuracy
    details = {**outcome.details, "groups": tables} if tables else outcome.details
    return replace(outcome, metrics=metrics, notices=tuple(notices), details=details)


def _groups(entries: Sequence[Entry], column: str) -> dict[str, np.ndarray]:
    """Return the positions of each value of a column, in order of the values; samples without it are in no group."""
    found: dict[str, list[int]] = {}
    for i, entry in enumerate(entries):
        value = entry.meta.get(column)
        if value not in (None, "") and value == value:  # noqa: PLR0124 - NaN is a cell that was empty
            found.setdefault(_name(value), []).append(i)
    return {group: np.array(found[group], np.int64) for group in sorted(found)}


def _name(value: object) -> str:
    """Write a value as people do: 5.0 is 5."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _row(metrics: Mapping[str, Metric]) -> dict[str, Any]:
    sizes = [metric.n for metric in metrics.values() if metric.n is not None]
    return {"n": max(sizes, default=0), **{name: metric.value for name, metric in metrics.items()}}


def _worst(groups: Sequence[Mapping[str, Metric]], overall: Mapping[str, Metric]) -> dict[str, Metric]:
    """Return for each metric the value of the group that has least of it, with that group's interval.

    It is no mean over the records, which are those of all groups, and never stands for the benchmark by itself.
    """
    worst = {}
    for name, whole in overall.items():
        found = [group[name] for group in groups if name in group]
        if found:
            choose = max if whole.lower_is_better else min
            least = choose(found, key=lambda metric: metric.value)
            worst[name] = replace(least, primary=False, mean_of=None, function="")
    return worst
