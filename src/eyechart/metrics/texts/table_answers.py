# ruff: noqa: RUF001 - quotes and dashes that look alike are what is unified here
"""Answers about tables, compared as TableVQABench does: numbers with units, statements, lists of values and dates."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from eyechart.metrics.cells import finite_number

_UNIT_WORDS = r"\b(?:dollar|gallons|square feet|shares|mbtu|mbpd|mbbls|mmbtu|unit|gwh|year|mmcf|mile|mboe)s?\b"
_SCALES = {r" ?\bthousand\b": "e3", r" ?\bmillion\b": "e6", r" ?\bbillion\b": "e9", r" ?%": "e-2"}
_FOOTNOTES = re.compile(r"((?<!^)\[[^\]]*\]|\[\d+\]|[•♦†‡*#+])*$")
_REMARKS = re.compile(r"(?<!^)( \([^)]*\))*$")


def plain_cell(text: str) -> str:
    """Return a table's text without accents, footnotes, remarks in brackets, quotes, a final dot and capitals."""
    found = "".join(c for c in unicodedata.normalize("NFKD", text) if unicodedata.category(c) != "Mn")
    found = re.sub(r"[‐‑‒–—−]", "-", re.sub(r"[“”]", '"', re.sub(r"[‘’´`]", "'", found)))
    before = None
    while before != found:
        before = found
        found = _REMARKS.sub("", _FOOTNOTES.sub("", found.strip()).strip())
        found = re.sub(r'^"([^"]*)"$', r"\1", found.strip())
    found = found.removesuffix(".")
    return " ".join(found.lower().split())


def amounts(text: str) -> tuple[float | str, float | str]:
    """Return a text as a number with its unit worked in (3 million, 12 %), and without; what is none stays a text."""
    plain = re.sub(r"[$(),]", "", plain_cell(text))
    plain = re.sub(_UNIT_WORDS, "", plain, flags=re.IGNORECASE)
    scaled = bare = plain
    for pattern, power in _SCALES.items():
        scaled, bare = re.sub(pattern, power, scaled), re.sub(pattern, "", bare)
    try:
        return float(scaled), float(bare)
    except ValueError:
        return scaled, bare


def same_amount(answer: str, target: str) -> tuple[bool, bool]:
    """Tell whether two amounts agree with or without their units, and with them."""
    said, wanted = amounts(answer), amounts(target)
    return any(a == b for a in said for b in wanted), said[0] == wanted[0]


def same_statement(answer: str, target: str) -> bool:
    """Tell whether an answer says true for 1 and false for 0, and not both."""
    said = answer.lower()
    wanted = {"1": "true", "0": "false"}.get(target.strip(), "")
    return bool(wanted) and wanted in said and not ("true" in said and "false" in said)


@dataclass(frozen=True)
class CellValue:
    """A text of a table, and the number or date that it is."""

    text: str
    value: float | tuple[int, int, int] | None

    def same(self, other: CellValue) -> bool:
        """Tell whether two are the same text, number or date."""
        if self.text == other.text:
            return True
        if isinstance(self.value, float) and isinstance(other.value, float):
            return abs(self.value - other.value) < 1e-6
        return self.value is not None and self.value == other.value


def cell_value(text: str) -> CellValue:
    """Read a text as a number, else as a date (2000-06-01, xx for what is not known), else as a text."""
    number = finite_number(text)
    return CellValue(plain_cell(text), number if number is not None else _date(text))


def _date(text: str) -> float | tuple[int, int, int] | None:
    parts = text.lower().split("-")
    if len(parts) != 3:
        return None
    try:
        year = -1 if parts[0] in {"xx", "xxxx"} else int(parts[0])
        month, day = (-1 if part == "xx" else int(part) for part in parts[1:])
    except ValueError:
        return None
    if year == month == day == -1 or not (month == -1 or 1 <= month <= 12) or not (day == -1 or 1 <= day <= 31):
        return None
    return float(year) if month == day == -1 else (year, month, day)


def same_values(answer: str, target: str) -> bool:
    """Tell whether two lists, joined by bars, hold the same values, in any order."""
    said, wanted = _values(answer.replace("||", "|")), _values(target)
    return len(said) == len(wanted) and all(any(value.same(other) for other in said) for value in wanted)


def _values(text: str) -> list[CellValue]:
    cells = [c.replace(r"\n", "\n").replace(r"\p", "|").replace("\\\\", "\\") for c in text.split("|")]
    distinct: dict[object, CellValue] = {}
    for value in map(cell_value, cells):
        key = value.value if value.value is not None else value.text
        distinct.setdefault(round(key, 6) if isinstance(key, float) else key, value)
    return list(distinct.values())
