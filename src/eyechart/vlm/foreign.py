"""Dataset classes with an ``evaluate`` of their own: what they return becomes metrics."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean, pvariance
from typing import Any

from eyechart.errors import DataError
from eyechart.metrics.cells import as_text, options_of
from eyechart.types import Metric
from eyechart.vlm.base import ImageBaseDataset
from eyechart.vlm.outcome import Outcome
from eyechart.vlm.predict import Predictions
from eyechart.vlm.rows import as_table


def own_evaluation(
    dataset: ImageBaseDataset, stems: Sequence[Path], runs: Sequence[Predictions], judge: Mapping[str, Any]
) -> Outcome:
    """Let the class score its files; every number that it returns is a metric, the mean over repeats."""
    suffix = ".xlsx" if find_spec("openpyxl") else ".jsonl"
    tables = [dict(flatten(dataset.evaluate(str(stem) + suffix, **judge))) for stem in stems]
    names = [name for name in tables[0] if all(name in table for table in tables)]
    if not names:
        raise DataError(f"{type(dataset).__name__}.evaluate returned no number.")
    metrics = {name: Metric(fmean(table[name] for table in tables)) for name in names}
    details: dict[str, Any] = {"decided_by": f"{type(dataset).__name__}.evaluate"}
    if len(tables) > 1:
        count = len(tables)
        details["variance"] = {n: pvariance([t[n] for t in tables]) * count / (count - 1) for n in names}
    return Outcome(metrics, list(_records(runs[0])), [], details)


def flatten(value: Any, prefix: str = "") -> Iterator[tuple[str, float]]:
    """Yield the numbers of a dict, list or table, with the path to each."""
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
    elif isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        yield prefix or "value", float(value)


def _join(prefix: str, name: str) -> str:
    return f"{prefix}|{name}" if prefix and name else prefix or name


def _records(run: Predictions) -> Iterator[dict[str, Any]]:
    for row in run.rows:
        yield {
            "id": as_text(row["index"]),
            "question": as_text(row.get("question")),
            "options": options_of(row) or None,
            "answer": row.get("answer"),
            "prediction": as_text(row.get("prediction")),
            "thinking": row.get("thinking"),
            "category": row.get("category"),
        }
