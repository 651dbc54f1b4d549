"""A metric as the mean of its records' numbers: for one model, and side by side for several."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eyechart.errors import ResultError
from eyechart.report.records import Floats, Ints, RecordColumns, numbered
from eyechart.report.remembered import remembered_columns
from eyechart.report.tests import FUNCTIONS
from eyechart.results import Result
from eyechart.types import MeanOf, Metric

TOLERANCE = 1e-6
"""Records hold rounded numbers, so that their mean is the metric up to this."""
TIES = 1e-3
"""Rounded scores may tie, which moves what follows from their order by up to this."""


@dataclass(frozen=True)
class MeanRows:
    """The records that a metric is the mean of."""

    ids: tuple[str, ...]
    values: Floats
    units: tuple[str, ...] | None
    """What each record belongs to (its image), where records are not independent."""
    groups: tuple[str, ...] | None
    """Groups that count alike, whatever their size."""

    def mean(self) -> float:
        """Return the metric."""
        return float((self.values * _weights(self.groups, len(self.ids))).mean())


@dataclass(frozen=True)
class AlignedRows:
    """The records that several models have, in one order."""

    ids: tuple[str, ...]
    values: Floats
    """Models x records; the mean of a row is the model's metric."""
    units: tuple[str, ...] | None
    left_out: int
    """Records that only some of the models have a number for."""


def rows_of(columns: RecordColumns, mean_of: MeanOf) -> MeanRows:
    """Pick the records that count for a metric, and their numbers."""
    numbers = columns.numbers[mean_of.field]
    counts = np.isfinite(numbers) if mean_of.at_most is None else ~np.isnan(numbers)
    for name, wanted in mean_of.where.items():
        counts &= np.array([value == wanted for value in columns.names[name]], bool)
    kept = np.flatnonzero(counts)
    values = numbers[kept] if mean_of.at_most is None else (numbers[kept] <= mean_of.at_most).astype(np.float64)
    ids = columns.ids if kept.size == len(columns.ids) else tuple(columns.ids[i] for i in kept.tolist())

    def named(field: str) -> tuple[str, ...] | None:
        return tuple(columns.names[field][i] or columns.ids[i] for i in kept) if field else None

    return MeanRows(ids, values, named(mean_of.cluster), named(mean_of.balance))


def align(parts: Sequence[MeanRows]) -> AlignedRows | None:
    """Put the records of several models side by side by their ids; None if there is none that all have."""
    first = parts[0]
    ids, places = in_common([part.ids for part in parts])
    if not ids:
        return None

    def own(names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return None if names is None else tuple(names[i] for i in places[0])

    values = np.stack([part.values[place] for part, place in zip(parts, places, strict=True)])
    left_out = count_left_out([part.ids for part in parts], ids)
    return AlignedRows(ids, values * _weights(own(first.groups), len(ids)), own(first.units), left_out)


def in_common(lists: Sequence[tuple[str, ...]]) -> tuple[tuple[str, ...], list[Ints]]:
    """Return the ids that all lists have, in the order of the first, and where each list has them."""
    if all(own is lists[0] or own == lists[0] for own in lists):
        return lists[0], [np.arange(len(lists[0]))] * len(lists)
    common = set(lists[0]).intersection(*lists[1:])
    ids = tuple(name for name in lists[0] if name in common)
    lookups = [{name: i for i, name in enumerate(own)} for own in lists]
    return ids, [np.array([place[name] for name in ids], np.int64) for place in lookups]


def count_left_out(lists: Sequence[tuple[str, ...]], common: tuple[str, ...]) -> int:
    """Count the ids that only some of the lists have."""
    if all(own is common for own in lists):
        return 0
    return len(set().union(*lists)) - len(common)


def read_checked(result: Result, *, keep: int = 0) -> RecordColumns | None:
    """Read the records of a result, and see that its metrics are those of the records; None without records.

    Raises:
        ResultError: If the file, its records, or a metric that is a mean of them, were changed after the run.
    """
    if result.altered:
        raise ResultError(f"{result.path} was changed after it was written.", advice="Run the job again.")
    columns = remembered_columns(result, keep=keep)
    if columns is None:
        return None
    for name, metric in result.values.items():
        try:
            known = _from_records(columns, metric)
        except (TypeError, ValueError) as error:
            raise ResultError(f"{result.path} is damaged: {name}: {error}.") from error
        tolerance = TOLERANCE if metric.mean_of else TIES
        if known is not None and not math.isclose(known, metric.value, rel_tol=tolerance, abs_tol=tolerance):
            what = "the mean" if metric.mean_of else "that"
            raise ResultError(
                f"{result.path}: {name} is {metric.value:.6g}, but {what} of its records is {known:.6g}.",
                advice="The file was changed after the run: run the job again, or leave the result out.",
            )
    return columns


def _from_records(columns: RecordColumns, metric: Metric) -> float | None:
    """Return a metric as the records have it; None if it is not made of them."""
    if metric.mean_of:
        rows = rows_of(columns, metric.mean_of)
        return rows.mean() if rows.ids else None
    function = FUNCTIONS.get(metric.function)
    return function.value(columns.scores, columns.present) if function and columns.ids else None


def _weights(groups: Sequence[str] | None, count: int) -> Floats:
    """Weigh records so that their mean is the mean over groups of each group's mean."""
    if groups is None:
        return np.ones(count)
    places = numbered(groups)
    sizes = np.bincount(places)
    return np.asarray(count / (sizes.size * sizes[places]), np.float64)
