"""Which results may be compared, and their samples side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from eyechart.errors import ResultError
from eyechart.report.records import Columns, Ints, read_columns
from eyechart.report.table import Table
from eyechart.results import Result

ASPECTS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "dataset": (("data", "fingerprint"),),
    "split": (("data", "split"),),
    "samples": (("job", "limit"),),
    "prompts": (("data", "prompts_digest"), ("data", "templates_digest"), ("data", "classnames_digest")),
    "task version": (("job", "settings", "task_version"),),
}
"""What must be the same, and where a result tells it."""


def differences(first: Result, second: Result) -> list[str]:
    """Name what differs between two results of one benchmark; empty if they may be compared.

    What a result does not tell cannot be checked; results of other tools tell nothing, but have no records either.
    """
    return [aspect for aspect, places in ASPECTS.items() if any(_differ(first, second, place) for place in places)]


def _differ(first: Result, second: Result, place: Sequence[str]) -> bool:
    a, b = (_look_up(result, place) for result in (first, second))
    if place == ("job", "limit"):  # none is a value here: all samples
        return bool(first.job and second.job) and a != b
    return a is not None and b is not None and a != b


def _look_up(result: Result, place: Sequence[str]) -> Any:
    value: Any = getattr(result, place[0])
    for key in place[1:]:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


class RecordsCache:
    """Reads the records of each cell of a table once."""

    def __init__(self, table: Table, *, keep: int = 0, strict: bool = True) -> None:
        self.table = table
        self.keep = keep
        self.strict = strict
        self.problems: list[str] = []
        """What could not be read, where that is no error: the page goes on without it and says so."""
        self._columns: dict[tuple[int, int], Columns | None] = {}

    def columns(self, model: int, benchmark: int) -> Columns | None:
        """Return the records of one cell as columns; None if it has none."""
        place = (model, benchmark)
        if place not in self._columns:
            found = self.table.cells.get(place)
            self._columns[place] = self._read(found.result) if found else None
        return self._columns[place]

    def _read(self, result: Result) -> Columns | None:
        try:
            return read_columns(result, keep=self.keep)
        except ResultError as error:
            if self.strict:
                raise
            self.problems.append(error.message)
            return None

    def comparable(self, benchmark: int, leader: int) -> dict[int, Columns]:
        """Return the records of the leader and of every model whose result may be compared with the leader's."""
        results = self.table.results_of(benchmark)
        found: dict[int, Columns] = {}
        for model in sorted(results, key=lambda m: (m != leader, m)):
            columns = self.columns(model, benchmark)
            if columns is not None and not differences(results[leader], results[model]):
                found[model] = columns
        return found if leader in found else {}

    def forget(self, benchmark: int) -> None:
        """Drop the records of one benchmark."""
        self._columns = {place: columns for place, columns in self._columns.items() if place[1] != benchmark}


@dataclass(frozen=True)
class Paired:
    """Rows that all models have, in one order."""

    columns: tuple[Columns, ...]
    unmatched: int
    """Rows that some model lacks."""


def pair(columns: Sequence[Columns]) -> Paired | None:
    """Align the records of several models on their sample ids; None if there is no common id."""
    first = columns[0].ids
    if all(other.ids == first for other in columns[1:]):
        return Paired(tuple(columns), 0)
    common = reduce(set.__and__, [set(other.ids) for other in columns])
    if not common:
        return None
    everything = reduce(set.__or__, [set(other.ids) for other in columns])
    order = [name for name in first if name in common]
    aligned = []
    for other in columns:
        place = {name: i for i, name in enumerate(other.ids)}
        rows: Ints = np.array([place[name] for name in order], np.int64)
        aligned.append(other.take(rows))
    return Paired(tuple(aligned), len(everything) - len(common))


def common_rows(parts: Sequence[Ints]) -> Ints:
    """Return the positions that all lists have: samples that every model's answer could be judged on."""
    return reduce(np.intersect1d, parts)
