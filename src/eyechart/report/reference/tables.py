"""Tables in the form in which they were published, with one's own rows in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from eyechart.benchmarks import benchmark_name
from eyechart.report.load import PUBLISHED
from eyechart.report.pairing import differences
from eyechart.report.reference.publication import load_publication
from eyechart.report.table import Column, ResultTable, benchmark_of
from eyechart.results import Result
from eyechart.results.numbers import is_fraction


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
_Places = dict[tuple[str, str], dict[int, Result]]
"""(dataset, language) -> its benchmarks in the publication, by task, each with one of the published results."""


def published_tables(name: str, table: ResultTable) -> list[PublishedTable]:
    """Rebuild the tables of a publication from a table of results, with a row for each model that has any column.

    Derived columns follow the publication: averages of the printed, rounded numbers.
    """
    publication, places = load_publication(name), _Places()
    for (_, b), item in table.cells.items():
        if publication.holds(item):
            benchmark = table.benchmarks[b]
            places.setdefault((benchmark.dataset, benchmark.language), {})[b] = item.result
    return [_rebuild(spec, table, places) for spec in publication.tables]


def why_not_beside(table: ResultTable, b: int, mine: Result, theirs: Result) -> str:
    """Say why a number cannot stand beside a published one: other samples, not all of them, or another scale."""
    benchmark, listed = table.benchmarks[b], mine.counts.get("listed")
    other = [aspect for aspect in differences(mine, theirs) if aspect in ("dataset", "split", "samples")]
    if other:
        return f"other {', '.join(other)}"
    if listed and benchmark_name(mine.dataset, samples=listed, language=benchmark.language) != benchmark.dataset:
        return f"{listed} samples are not the benchmark's"
    if any(is_fraction(theirs.values[name]) and not is_fraction(mine.values[name]) for name in _shared(mine, theirs)):
        return "not a fraction: per cent are divided by 100"
    return ""


def _shared(mine: Result, theirs: Result) -> set[str]:
    return set(mine.values).intersection(theirs.values)


def _rebuild(spec: Mapping[str, Any], table: ResultTable, places: _Places) -> PublishedTable:
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


def _column(part: Mapping[str, str], table: ResultTable, places: _Places) -> Sequence[Any]:
    """Return the values of a published column, where they can stand beside what was published."""
    wanted = benchmark_of(Result(part["dataset"], "", "", "", part["language"], {}))
    for b, theirs in places.get((wanted.dataset, wanted.language), {}).items():
        if part["metric"] in theirs.values:
            values = table.values(Column(b, part["metric"]))
            for m, result in table.by_benchmark[b].items():
                if table.models[m].origin != PUBLISHED and why_not_beside(table, b, result, theirs):
                    values[m] = None
            return values
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
