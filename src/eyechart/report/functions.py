"""Metrics that are no mean over records but another function of them, by the name that the result gives it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from eyechart.report.records import RecordColumns
from eyechart.report.tests import PairedOutcome, mean_average_precision, paired_precision


@dataclass(frozen=True)
class RecordFunction:
    """How a metric is computed from records, and how two models are compared by it."""

    value: Callable[[RecordColumns], float]
    compare: Callable[[RecordColumns, RecordColumns], PairedOutcome]


FUNCTIONS: Mapping[str, RecordFunction] = {
    "mean_average_precision": RecordFunction(
        lambda columns: mean_average_precision(columns.scores, columns.present), paired_precision
    ),
}


def common_records(first: RecordColumns, second: RecordColumns) -> tuple[RecordColumns, RecordColumns, int] | None:
    """Return the scores of the samples that both have, in one order, and how many samples only one has."""
    common = set(first.ids) & set(second.ids)
    if not common:
        return None
    order = tuple(name for name in first.ids if name in common)

    def pick(columns: RecordColumns) -> RecordColumns:
        place = {name: i for i, name in enumerate(columns.ids)}
        rows = np.array([place[name] for name in order])
        return replace(columns, ids=order, scores=columns.scores[rows], present=columns.present[rows])

    return pick(first), pick(second), len(set(first.ids) | set(second.ids)) - len(order)
