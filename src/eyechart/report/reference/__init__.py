"""Published numbers for comparison: results as printed, and the tables in which they were printed."""

from __future__ import annotations

import json
import lzma
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from eyechart.benchmarks import benchmark_name
from eyechart.errors import unknown_name
from eyechart.report.loader import PUBLISHED, LoadedResult
from eyechart.report.paired_records import differences
from eyechart.report.result_table import Column, ResultTable, benchmark_of
from eyechart.results import Result, result_from_dict
from eyechart.results.views import is_fraction

# Loading of the sets of published numbers that ship with the package.
#
# A set is ``NAME.json`` or ``NAME.json.xz`` next to this file: ``title``, ``source``, ``date`` (of the copy),
# ``notes``; ``decimals`` if the numbers were rounded; ``models`` (name, weights, known sizes), ``columns`` (dataset,
# task, language, metric, whether it is the primary one), ``values`` (a row per model) and ``tables`` (their published
# layout). ``scripts/published_numbers.py`` generates the packed ones.


PLAIN, PACKED = ".json", ".json.xz"


@dataclass(frozen=True)
class Publication:
    """A set of published results and its source."""

    name: str
    title: str
    source: str
    date: str
    notes: tuple[str, ...]
    half_unit: float
    """Rounding error of a published number: half a unit in the last place."""
    found: tuple[LoadedResult, ...]
    tables: tuple[dict[str, Any], ...]

    def holds(self, item: LoadedResult) -> bool:
        """Whether a result belongs to this set; a user's folder may have the same name."""
        return item.origin == PUBLISHED and item.argument == self.name


def names() -> list[str]:
    """List the sets of published numbers that ship with the package."""
    files = (entry.name for entry in resources.files(__package__).iterdir())
    return sorted(name.partition(".")[0] for name in files if name.endswith((PLAIN, PACKED)))


@cache
def load_publication(name: str) -> Publication:
    """Load a set of published results with its metadata."""
    if name not in names():
        raise unknown_name("reference", name, names())
    packed, plain = (resources.files(__package__).joinpath(name + ending) for ending in (PACKED, PLAIN))
    body = json.loads(lzma.decompress(packed.read_bytes()) if packed.is_file() else plain.read_bytes())
    decimals = body.get("decimals")
    found = [
        LoadedResult(result_from_dict(result, Path(f"{name}{PLAIN}")), PUBLISHED, name)
        for model, values in zip(body["models"], body["values"], strict=True)
        for result in _results(model, body["columns"], values)
    ]
    return Publication(
        name,
        body["title"],
        body["source"],
        body["date"],
        tuple(body["notes"]),
        0.0 if decimals is None else 0.5 * 10.0**-decimals,
        tuple(found),
        tuple(body["tables"]),
    )


def _results(
    model: tuple[str, str, dict[str, float]], columns: Sequence[dict[str, Any]], values: Sequence[float | None]
) -> list[dict[str, Any]]:
    """Build the results of one model: a body per benchmark, on all samples of the test split."""
    name, pretrained, size = model
    bodies: dict[tuple[str, ...], dict[str, Any]] = {}
    for column, value in zip(columns, values, strict=True):
        if value is None:
            continue
        benchmark = {key: str(column[key]) for key in ("dataset", "task", "language")}
        body = bodies.setdefault(
            tuple(benchmark.values()),
            {**benchmark, "model": name, "pretrained": pretrained, "metrics": {}}
            | {"model_card": size, "data": {"split": "test"}, "job": {"limit": None}},
        )
        body["metrics"][column["metric"]] = value
        if column.get("primary"):
            body["data"]["main_metric"] = column["metric"]
    return list(bodies.values())


# Published tables in their original layout, with rows for the user's results.


@dataclass(frozen=True)
class PublishedTable:
    """A table in its published layout, as printed: per cent, with a fixed number of decimals."""

    title: str
    groups: tuple[str, ...]
    """A heading over each column; adjacent equal headings are merged."""
    header: tuple[str, ...]
    metrics: tuple[str, ...]
    """Metric of each column: the same dataset may be measured in several ways."""
    rows: tuple[tuple[int, tuple[str, ...]], ...]
    """Row of the table of results -> the cells as text; "" for a missing number."""


OTHER_SAMPLES = "≠"
"""Marks a number over other samples than the benchmark's: a subset, or the user's own data."""
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


def why_not_comparable(table: ResultTable, b: int, mine: Result, theirs: Result) -> str:
    """Return why a number cannot be ranked among published ones: other samples, a subset, or another scale."""
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
    return "not a fraction: divide per cent by 100" if other else ""


def _rebuild(spec: Mapping[str, Any], table: ResultTable, places: _Places) -> PublishedTable:
    digits, parts, derived = Decimal(1).scaleb(-spec["digits"]), spec["columns"], spec["derived"]
    columns = [_column(part, table, places) for part in parts]
    rows = []
    for row in range(len(table.models)):
        texts: list[str] = []
        own: list[Decimal] = []  # over the benchmark's samples
        for values, other in columns:
            value = values[row]
            printed = None if value is None else Decimal(repr(100 * value)).quantize(digits, ROUND_HALF_UP)
            texts.append("" if printed is None else f"{printed} {OTHER_SAMPLES}" if row in other else str(printed))
            own += [] if printed is None or row in other else [printed]
        if not any(texts):
            continue
        for _, how in derived:
            # Only complete rows are averaged: a mean over different columns would mislead.
            mean = (sum(own, Decimal(0)) / len(own)).quantize(digits, ROUND_HALF_UP) if len(own) == len(parts) else None
            texts.append("" if mean is None else str(own[0] - mean if how == "first minus average" else mean))
        rows.append((row, tuple(texts)))
    return PublishedTable(
        title=spec["title"],
        groups=(*(part.get("group", "") for part in parts), *("" for _ in derived)),
        header=(*(part["label"] for part in parts), *(label for label, _ in derived)),
        metrics=(*(part["metric"] for part in parts), *("" for _ in derived)),
        rows=tuple(rows),
    )


def _column(part: Mapping[str, str], table: ResultTable, places: _Places) -> tuple[list[float | None], set[int]]:
    """Return the values of a published column by row, and the rows whose values are over other samples.

    The user's numbers on another scale are left out.
    """
    wanted = benchmark_of(Result(part["dataset"], "", "", "", part["language"], {}))
    for b, theirs in places.get((wanted.dataset, wanted.language), {}).items():
        if part["metric"] in theirs.values:
            values = list(table.values(Column(b, part["metric"])))
            mine = {m: one for m, one in table.by_benchmark[b].items() if table.models[m].origin != PUBLISHED}
            for m, result in mine.items():
                values[m] = None if _other_scale(result, theirs) else values[m]
            return values, {m for m in mine if _other_samples(table, b, mine[m], theirs)}
    return [None] * len(table.models), set()
