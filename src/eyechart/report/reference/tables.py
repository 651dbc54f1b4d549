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


OTHER_SAMPLES = "≠"
"""Marks one's own number over other samples than the benchmark's: a part of them, or data of one's own."""
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
    """Say why a number cannot be ranked among published ones: other samples, not all of them, or another scale."""
    return _other_samples(table, b, mine, theirs) or _other_scale(mine, theirs)


def _other_samples(table: ResultTable, b: int, mine: Result, theirs: Result) -> str:
    benchmark, listed = table.benchmarks[b], mine.counts.get("listed")
    other = [aspect for aspect in differences(mine, theirs) if aspect in ("dataset", "split", "samples")]
    if other:
        return f"other {', '.join(other)}"
    if listed and benchmark_name(mine.dataset, samples=listed, language=benchmark.language) != benchmark.dataset:
        return f"{listed} samples are not the benchmark's"
    return ""


def _other_scale(mine: Result, theirs: Result) -> str:
    shared = set(mine.values).intersection(theirs.values)
    other = any(is_fraction(theirs.values[name]) and not is_fraction(mine.values[name]) for name in shared)
    return "not a fraction: per cent are divided by 100" if other else ""


def _rebuild(spec: Mapping[str, Any], table: ResultTable, places: _Places) -> PublishedTable:
    digits = Decimal(1).scaleb(-spec["digits"])
    columns = [_column(part, table, places) for part in spec["columns"]]
    rows = []
    for row in range(len(table.models)):
        cells = [(column.values[row], row in column.other) for column in columns]
        printed = [None if value is None else _round(Decimal(repr(100 * value)), digits) for value, _ in cells]
        if any(value is not None for value in printed):
            own = [None if other else value for value, (_, other) in zip(printed, cells, strict=True)]
            derived = [_text(_DERIVED[how](own, digits)) for _, how in spec["derived"]]
            texts = [_text(value, other=other) for value, (_, other) in zip(printed, cells, strict=True)]
            rows.append((row, (*texts, *derived)))
    return PublishedTable(
        title=spec["title"],
        groups=(*(part.get("group", "") for part in spec["columns"]), *("" for _ in spec["derived"])),
        header=(*(part["label"] for part in spec["columns"]), *(label for label, _ in spec["derived"])),
        metrics=(*(part["metric"] for part in spec["columns"]), *("" for _ in spec["derived"])),
        rows=tuple(rows),
    )


@dataclass(frozen=True)
class _Printed:
    """The values of a published column by row, and which of them are over other samples."""

    values: Sequence[Any]
    other: frozenset[int] = frozenset()


def _column(part: Mapping[str, str], table: ResultTable, places: _Places) -> _Printed:
    """Return a published column with one's own numbers in it; those of another scale are left out."""
    wanted = benchmark_of(Result(part["dataset"], "", "", "", part["language"], {}))
    for b, theirs in places.get((wanted.dataset, wanted.language), {}).items():
        if part["metric"] in theirs.values:
            values = list(table.values(Column(b, part["metric"])))
            mine = {m: one for m, one in table.by_benchmark[b].items() if table.models[m].origin != PUBLISHED}
            for m, result in mine.items():
                values[m] = None if _other_scale(result, theirs) else values[m]
            return _Printed(values, frozenset(m for m in mine if _other_samples(table, b, mine[m], theirs)))
    return _Printed([None] * len(table.models))


def _text(value: Decimal | None, *, other: bool = False) -> str:
    if value is None:
        return ""
    return f"{value} {OTHER_SAMPLES}" if other else str(value)


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
