"""Tables as scripts for VLMEvalKit expect them: pandas data frames where pandas is installed, else tables of ours."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from typing import Any

from eyechart.datasets.questions.rows import Cell, RowTable
from eyechart.metrics.cells import LETTERS

__all__ = ["d2df"]

TEXTS = frozenset({"question", "hint", "answer", "prediction", "image", "image_path", *LETTERS})
"""Columns that are texts by their meaning: an answer 7 and a prediction 7 are the same, whatever the file's type."""
_INTEGER = re.compile(r"-?(?:0|[1-9]\d{0,17})")


def to_frame(table: RowTable) -> Any:
    """Return a data frame; a column of numbers gets numbers, if their texts can be had back from them."""
    if find_spec("pandas") is None:
        return table
    import pandas as pd

    columns = {name: _typed(name, table[name]) for name in table.columns}
    made = {name: pd.Series(cells, dtype=None if _numbers(cells) else object) for name, cells in columns.items()}
    return pd.DataFrame(made, columns=list(table.columns), index=range(len(table)))


def d2df(D: Mapping[str, Any]) -> Any:  # noqa: N803 - the original's name
    """Make a table with one row of a dict."""
    return to_frame(RowTable([D]))


def _typed(name: str, cells: list[Cell]) -> list[Cell]:
    if name in TEXTS:
        return cells
    given = [cell for cell in cells if cell is not None]
    if not given or not all(isinstance(cell, str) for cell in given):
        return cells
    if all(map(_INTEGER.fullmatch, given)):
        return [cell if cell is None else int(cell) for cell in cells]
    return [cell if cell is None else float(cell) for cell in cells] if all(map(_is_float, given)) else cells


def _is_float(text: str) -> bool:
    """Tell whether a text is just what Python would write for the number."""
    try:
        return repr(float(text)) == text and text[-1].isdigit()
    except ValueError:
        return False


def _numbers(cells: Iterable[Cell]) -> bool:
    return all(isinstance(cell, int | float) and not isinstance(cell, bool) for cell in cells)
