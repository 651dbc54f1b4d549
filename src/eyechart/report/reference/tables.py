"""Tables in the form in which they were published, with one's own rows in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from eyechart.report.reference.publication import load_publication
from eyechart.report.table import Column, ResultTable, benchmark_of
from eyechart.results import Result


@dataclass(frozen=True)
class PublishedTable:
    """A table in the form in which it was published, as printed: per cent, some digits after the point."""

    title: str
    groups: tuple[str, ...]
    """A heading over each column; neighbours with the same one belong together."""
    header: tuple[str, ...]
    metrics: tuple[str, ...]
    """What each column is, under its own name: the same dataset may be measured in several ways."""
    rows: tuple[tuple[int, tuple[str, ...]], ...]
    """Row of the table of results -> the cells as text; "" where there is no number."""


Numbers = Sequence[Decimal | None]


def published_tables(name: str, table: ResultTable) -> list[PublishedTable]:
    """Rebuild the tables of a publication from a table of results, with a row for each model that has any column.

    Derived columns follow the publication: averages of the printed, rounded numbers.
    """
    places: dict[tuple[str, str], list[int]] = {}
    for b, benchmark in enumerate(table.benchmarks):
        places.setdefault((benchmark.dataset, benchmark.language), []).append(b)
    return [_rebuild(spec, table, places) for spec in load_publication(name).tables]


def _rebuild(
    spec: Mapping[str, Any], table: ResultTable, places: Mapping[tuple[str, str], list[int]]
) -> PublishedTable:
    digits = Decimal(1).scaleb(-spec["digits"])
    columns = [_column(part, table, places) for part in spec["columns"]]
    rows = []
    for row in range(len(table.models)):
        values = [
            None if column[row] is None else _round(Decimal(repr(100 * column[row])), digits) for column in columns
        ]
        if any(value is not None for value in values):
            derived = [_DERIVED[how](values, digits) for _, how in spec["derived"]]
            rows.append((row, tuple("" if value is None else str(value) for value in (*values, *derived))))
    return PublishedTable(
        title=spec["title"],
        groups=(*(part.get("group", "") for part in spec["columns"]), *("" for _ in spec["derived"])),
        header=(*(part["label"] for part in spec["columns"]), *(label for label, _ in spec["derived"])),
        metrics=(*(part["metric"] for part in spec["columns"]), *("" for _ in spec["derived"])),
        rows=tuple(rows),
    )


def _column(part: Mapping[str, str], table: ResultTable, places: Mapping[tuple[str, str], list[int]]) -> Sequence[Any]:
    """Return the values of a published column: the metric of that name that the dataset has in that language."""
    wanted = benchmark_of(Result(part["dataset"], "", "", "", part["language"], {}))
    for b in places.get((wanted.dataset, wanted.language), ()):
        if part["metric"] in table.metrics_of(b):
            return table.values(Column(b, part["metric"]))
    return [None] * len(table.models)


def _average(values: Numbers, digits: Decimal) -> Decimal | None:
    """Average only full rows: a mean over other columns than the others' would mislead."""
    present = [value for value in values if value is not None]
    return _round(sum(present, Decimal(0)) / len(present), digits) if len(present) == len(values) else None


def _first_minus_average(values: Numbers, digits: Decimal) -> Decimal | None:
    mean = _average(values, digits)
    return None if mean is None or values[0] is None else values[0] - mean


_DERIVED = {"average": _average, "first minus average": _first_minus_average}


def _round(value: Decimal, digits: Decimal) -> Decimal:
    return value.quantize(digits, ROUND_HALF_UP)
