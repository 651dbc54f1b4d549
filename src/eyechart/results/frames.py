"""Results as data frames of pandas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from eyechart.errors import import_extra
from eyechart.results.result import IDENTITY, Result

if TYPE_CHECKING:
    import pandas as pd

METRIC_COLUMNS = (*IDENTITY, "metric", "value", "low", "high", "chance", "n", "lower_is_better", "primary")
CLASS_COLUMNS = {"label": "label_name", "prediction": "prediction_name", "labels": "label_names", "top": "top_names"}
"""Columns of records that hold numbers of classes, and what the columns of their names are called."""
FORMS = ("label", "labels")
"""The records in which they do; in others ``top`` holds ids."""


def metric_frame(results: Sequence[Result]) -> pd.DataFrame:
    """Make a row of each metric of each result."""
    rows = [
        {
            **dict(zip(IDENTITY, result.identity, strict=True)),
            "metric": name,
            **{key: getattr(metric, key) for key in METRIC_COLUMNS[len(IDENTITY) + 1 :]},
        }
        for result in results
        for name, metric in result.values.items()
    ]
    return _pandas().DataFrame(rows, columns=list(METRIC_COLUMNS))


def record_frame(result: Result) -> pd.DataFrame:
    """Make a row of each record, with the names of classes."""
    frame = _pandas().DataFrame(list(result.iter_records()))
    names = result.details.get("classnames")
    if result.record_info.get("form") not in FORMS or not isinstance(names, Sequence):
        return frame
    for column, named in CLASS_COLUMNS.items():
        if column in frame:
            place = list(frame.columns).index(column) + 1
            frame.insert(place, named, [_named(value, names) for value in frame[column]])
    return frame


def _named(value: Any, names: Sequence[str]) -> Any:
    """Return the name of a class, or of several; a number that is none has no name."""
    if isinstance(value, list):
        return [_named(one, names) for one in value]
    return names[value] if isinstance(value, int) and 0 <= value < len(names) else None


def _pandas() -> Any:
    return import_extra("pandas", "pandas")
