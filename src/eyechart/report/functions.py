"""Metrics that are no mean over records but another function of them, by the name that results give it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from eyechart.report.records import Floats, Truth
from eyechart.report.tests import PairedOutcome, mean_average_precision, paired_precision


@dataclass(frozen=True)
class RecordFunction:
    """How a metric follows from the scores of all classes and what is true, and how two models differ by it."""

    value: Callable[[Floats, Truth], float]
    compare: Callable[[Floats, Floats, Truth], PairedOutcome]


FUNCTIONS: Mapping[str, RecordFunction] = {
    "mean_average_precision": RecordFunction(mean_average_precision, paired_precision),
}
