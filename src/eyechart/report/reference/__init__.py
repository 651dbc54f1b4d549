"""Published numbers for comparison: results as printed, and the tables in which they were printed."""

import json
import lzma
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from eyechart.benchmarks import benchmark_name
from eyechart.errors import DataError, unknown_name
from eyechart.io.safe_parse import read_json
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
    text = lzma.decompress(packed.read_bytes()) if packed.is_file() else plain.read_bytes()
    return _publication(name, json.loads(text))


def read_publication(path: Path) -> Publication:
    """Read a set of published results from a file of the same form; only models, columns and values are required."""
    body = read_json(path)
    try:
        return _publication(path.stem, {"title": path.stem, "source": "", "date": "", "notes": (), "tables": ()} | body)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DataError(
            "{path} is not a table of published results ({reason}).",
            advice="It needs the keys models, columns and values.",
            path=path,
            reason=repr(error),
        ) from error


def _publication(name: str, body: Mapping[str, Any]) -> Publication:
    decimals = body.get("decimals")
    bodies: list[dict[str, Any]] = []
    for (model, pretrained, size), values in zip(body["models"], body["values"], strict=True):
        own: dict[tuple[str, ...], dict[str, Any]] = {}  # by benchmark, on all samples of the test split
        for column, value in zip(body["columns"], values, strict=True):
            if value is None:
                continue
            benchmark = {key: str(column[key]) for key in ("dataset", "task", "language")}
            known = {**benchmark, "model": model, "pretrained": pretrained, "metrics": {}, "model_card": size}
            known |= {"data": {"split": "test"}, "job": {"limit": None}}
            result = own.setdefault(tuple(benchmark.values()), known)
            result["metrics"][column["metric"]] = value
            if column.get("primary"):
                result["data"]["main_metric"] = column["metric"]
        bodies += own.values()
    path = Path(f"{name}{PLAIN}")
    found = [LoadedResult(result_from_dict(result, path), PUBLISHED, name) for result in bodies]
    half_unit, about = 0.0 if decimals is None else 0.5 * 10.0**-decimals, (body["title"], body["source"], body["date"])
    return Publication(name, *about, tuple(body["notes"]), half_unit, tuple(found), tuple(body["tables"]))


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


def other_samples(table: ResultTable, b: int, mine: Result, theirs: Result) -> str:
    """Return in which samples a result differs from a published one: other data, or a subset; empty if in none."""
    benchmark, listed = table.benchmarks[b], mine.counts.get("listed")
    other = [aspect for aspect in differences(mine, theirs) if aspect in ("dataset", "split", "samples")]
    if other:
        return f"other {', '.join(other)}"
    if listed and benchmark_name(mine.dataset, samples=listed, language=benchmark.language) != benchmark.dataset:
        return f"{listed} samples are not the benchmark's"
    return ""


def other_scale(mine: Result, theirs: Result) -> str:
    """Return that published numbers are fractions and a result's are not, if so."""
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
                values[m] = None if other_scale(result, theirs) else values[m]
            return values, {m for m in mine if other_samples(table, b, mine[m], theirs)}
    return [None] * len(table.models), set()
