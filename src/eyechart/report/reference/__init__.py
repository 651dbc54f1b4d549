"""Published numbers, shown beside one's own: results as they were printed, and the tables they were printed in."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from importlib import resources
from pathlib import Path
from typing import Any

from eyechart.errors import unknown_name
from eyechart.report.load import Found
from eyechart.report.table import Column, ResultTable, benchmark_of
from eyechart.results import Result, result_from_dict

ORIGIN = "published"


@dataclass(frozen=True)
class PublishedTable:
    """A table in the form in which it was published, as printed: per cent, one digit after the point."""

    title: str
    groups: tuple[str, ...]
    """A heading over each column; neighbours with the same one belong together."""
    header: tuple[str, ...]
    rows: tuple[tuple[int, tuple[str, ...]], ...]
    """Row of the table of results -> the cells as text; "" where there is no number."""


def names() -> list[str]:
    """List the sets of published numbers that ship with the package."""
    files = (entry.name for entry in resources.files(__name__).iterdir())
    return sorted(name.removesuffix(".json") for name in files if name.endswith(".json"))


def load_reference(name: str) -> tuple[Found, ...]:
    """Read a set of published results."""
    body = _read(name)
    return tuple(Found(result_from_dict(row, Path(f"{name}.json")), ORIGIN, name) for row in body["results"])


def published_tables(name: str, table: ResultTable) -> list[PublishedTable]:
    """Rebuild the tables of a publication from a table of results, with a row for each model that has any column.

    Derived columns follow the publication: averages of the printed, rounded numbers.
    """
    return [_rebuild(spec, table) for spec in _read(name)["tables"]]


def _read(name: str) -> dict[str, Any]:
    if name not in names():
        raise unknown_name("reference", name, names())
    text = resources.files(__name__).joinpath(f"{name}.json").read_text(encoding="utf-8")
    body: dict[str, Any] = json.loads(text)
    return body


def _rebuild(spec: Mapping[str, Any], table: ResultTable) -> PublishedTable:
    columns = [_column(part, table) for part in spec["columns"]]
    rows = []
    for row in range(len(table.models)):
        values = [_printed(column[row]) for column in columns]
        if any(value is not None for value in values):
            derived = [_DERIVED[how](values) for _, how in spec["derived"]]
            rows.append((row, tuple("" if value is None else str(value) for value in (*values, *derived))))
    return PublishedTable(
        title=spec["title"],
        groups=(*(part.get("group", "") for part in spec["columns"]), *("" for _ in spec["derived"])),
        header=(*(part["label"] for part in spec["columns"]), *(label for label, _ in spec["derived"])),
        rows=tuple(rows),
    )


def _column(part: Mapping[str, str], table: ResultTable) -> Sequence[float | None]:
    """Return the values of a published column: the metric of that name that the dataset has in that language."""
    wanted = benchmark_of(Result(part["dataset"], "", "", "", part["language"], {}))
    for b, benchmark in enumerate(table.benchmarks):
        same = (benchmark.dataset, benchmark.language) == (wanted.dataset, wanted.language)
        if same and part["metric"] in table.metrics_of(b):
            return table.values(Column(b, part["metric"]))
    return [None] * len(table.models)


def _printed(value: float | None) -> Decimal | None:
    return None if value is None else _round(Decimal(repr(100 * value)))


def _average(values: Sequence[Decimal | None]) -> Decimal | None:
    """Average only full rows: a mean over other columns than the others' would mislead."""
    present = [value for value in values if value is not None]
    return _round(sum(present, Decimal(0)) / len(present)) if len(present) == len(values) else None


def _first_minus_average(values: Sequence[Decimal | None]) -> Decimal | None:
    mean = _average(values)
    return None if mean is None or values[0] is None else values[0] - mean


_DERIVED = {"average": _average, "first minus average": _first_minus_average}


def _round(value: Decimal) -> Decimal:
    return value.quantize(Decimal("0.1"), ROUND_HALF_UP)
