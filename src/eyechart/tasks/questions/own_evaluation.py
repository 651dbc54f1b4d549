"""Dataset classes with an ``evaluate`` of their own: what they return becomes metrics."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean, variance
from typing import Any

from eyechart.datasets.questions.rows import as_table
from eyechart.errors import DataError
from eyechart.metrics.cells import Row, as_text, options_of
from eyechart.types import Metric, Notice, Outcome

PRIMARY = "Overall"
"""The number that stands for the benchmark, if the class gives one of this name; else its first."""


def own_outcome(returned: Sequence[Any], rows: Sequence[Row], decided_by: str, notices: Sequence[Notice]) -> Outcome:
    """Make metrics of what ``evaluate`` returned for each repeat: every number is one, the mean over repeats.

    Raises:
        DataError: If it returned no number.
    """
    tables = [dict(flatten(value)) for value in returned]
    found = dict.fromkeys(name for table in tables for name in table)
    names = [name for name in found if all(math.isfinite(table.get(name, math.nan)) for table in tables)]
    if not names or (PRIMARY in found and PRIMARY not in names):
        raise DataError(f"{decided_by} returned no number{f' for {PRIMARY}' if PRIMARY in found else ''}.")
    lost = [name for name in found if name not in names]
    text = f"{decided_by} returned no number for {', '.join(lost)}: left out."
    notices = [*notices, *([Notice("no_number", len(lost), text)] if lost else [])]
    primary = PRIMARY if PRIMARY in names else names[0]
    metrics = {name: Metric(fmean(table[name] for table in tables), primary=name == primary) for name in names}
    details: dict[str, Any] = {"decided_by": decided_by}
    if len(tables) > 1:
        details["variance"] = {name: variance([table[name] for table in tables]) for name in names}
    return Outcome(metrics, [_record(row) for row in rows], notices, details)


def flatten(value: Any, prefix: str = "") -> Iterator[tuple[str, float]]:
    """Yield the numbers of a dict, list or table, NaN included, with the path to each."""
    if hasattr(value, "columns"):
        table = as_table(value)
        for i, row in enumerate(table.rows):
            labels = [str(cell) for cell in row.values() if isinstance(cell, str)]
            name = "|".join(labels) or (str(i) if len(table) > 1 else "")
            yield from flatten(row.to_dict(), _join(prefix, name))
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from flatten(item, _join(prefix, str(key)))
    elif isinstance(value, list | tuple):
        for i, item in enumerate(value):
            yield from flatten(item, prefix if len(value) == 1 else _join(prefix, str(i)))
    elif hasattr(value, "item"):
        yield from flatten(value.item(), prefix)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield prefix or "value", float(value)


def _join(prefix: str, name: str) -> str:
    return f"{prefix}|{name}" if prefix and name else prefix or name


def _record(row: Row) -> dict[str, Any]:
    return {
        "id": as_text(row["index"]),
        "question": as_text(row.get("question")),
        "options": options_of(row) or None,
        "answer": row.get("answer"),
        "prediction": as_text(row.get("prediction")),
        "thinking": row.get("thinking"),
        "category": row.get("category"),
    }
