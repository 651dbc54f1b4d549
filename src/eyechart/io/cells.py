"""Texts of others in the cells of tables: no formulas for a spreadsheet, no rows that nobody wrote."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from typing import Any, TypeVar

T = TypeVar("T")

_FORMULA = re.compile("'*[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
"""How a cell starts that a spreadsheet would compute; apostrophes before it count, so that reading is the inverse."""
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def is_formula(text: str) -> bool:
    """Tell whether a spreadsheet would compute a text; ``-0.5`` is a number."""
    return bool(_FORMULA.match(text)) and not _NUMBER.fullmatch(text)


def guarded(text: str) -> str:
    """Put an apostrophe before what a spreadsheet would compute: the sign that it is a text."""
    return f"'{text}" if is_formula(text) else text


def unguarded(cell: T) -> T:
    """Take off the apostrophe that `guarded` put there; whatever is no text stays as it is."""
    if isinstance(cell, str) and cell.startswith("'") and _FORMULA.match(cell):
        return cell[1:]  # type: ignore[return-value]  # a text again
    return cell


def one_line(text: str) -> str:
    """Write a name on one line, for tables that people read: every kind of line break becomes a space."""
    return " ".join(text.split())


def csv_text(rows: Iterable[Iterable[Any]]) -> str:
    """Write comma-separated values for spreadsheets: texts guarded, numbers in full, nothing where there is no value.

    Any cell with a line break is quoted. Python's own writer leaves a lone carriage return bare if lines end with a
    line feed, and readers then see two rows.
    """
    writer = csv.writer(_Lines())  # its lines end with both, so it quotes both
    lines = (str(writer.writerow(map(_cell, row))) for row in rows)
    return "".join(line.removesuffix("\r\n") + "\n" for line in lines)


def _cell(value: Any) -> Any:
    return value if value is None or isinstance(value, int | float) else guarded(str(value))


class _Lines:
    """Gives each line back to whoever wrote it."""

    def write(self, line: str) -> str:
        return line
