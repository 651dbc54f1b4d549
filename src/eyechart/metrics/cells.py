"""Reading table cells that may be missing, numbers or Python lists, without ever evaluating text."""

import ast
import math
import re
import string
import warnings
from collections.abc import Mapping

Row = Mapping[str, object]

LETTERS = string.ascii_uppercase
"""Names of the option columns of a multiple-choice table."""

# One element of a list literal and what ends it. Lists are read flat, element by element, because a parser
# for nested literals can be driven out of its stack by a hostile cell.
_ELEMENT = re.compile(
    r"""\s*(?P<value>'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|None|True|False|[-+]?[0-9.][0-9.eE+_-]{0,40})\s*(?P<end>,|$)""",
    re.DOTALL,
)


def is_missing(value: object) -> bool:
    """Tell whether a cell is absent: `None` or NaN. The texts "None", "NA" and "nan" are answers."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def as_text(value: object) -> str:
    """Return a cell as text; a missing cell is the empty text."""
    if isinstance(value, str):
        return value
    return "" if is_missing(value) else str(value)


def finite_number(text: str) -> float | None:
    """Return the finite number that a text is, or None: words, "nan" and "inf" are no numbers."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def as_score(value: object) -> float:
    """Return a stored score as a number; spreadsheets also give "True", "False" and number texts."""
    if isinstance(value, bool | int | float):
        return float(value)
    text = as_text(value).strip()
    if text in {"True", "False"}:
        return float(text == "True")
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{value!r} is not a score: expected a number, True or False") from None


def literal_list(text: str) -> list[object] | None:
    """Parse a flat Python list of texts and numbers; `None` when the text is anything else."""
    text = text.strip()
    if not (text.startswith("[") and text.endswith("]")):
        return None
    body, values, position = text[1:-1].rstrip(), list[object](), 0
    while position < len(body):
        element = _ELEMENT.match(body, position)
        if element is None:
            return None
        try:
            values.append(_plain_literal(element["value"]))
        except (ValueError, SyntaxError):
            return None
        position = element.end()
    return values


def _plain_literal(source: str) -> object:
    if source[0] in "'\"" and "\\" not in source:
        return source[1:-1]
    with warnings.catch_warnings():  # '\d' in a cell is data, not a mistake in our source code
        warnings.simplefilter("ignore")
        return ast.literal_eval(source)


def text_list(cell: object) -> list[str]:
    """Return the texts of a cell: a list, a list literal, or one text (VLMEvalKit's convention for lists)."""
    if is_missing(cell):
        return []
    values = literal_list(cell) if isinstance(cell, str) else cell
    if isinstance(values, list | tuple):
        return [as_text(value) for value in values]
    return [as_text(cell)]


def options_of(row: Row) -> dict[str, str]:
    """Return the options of a multiple-choice row: its non-missing single-letter columns, in order."""
    return {letter: as_text(row[letter]) for letter in LETTERS if letter in row and not is_missing(row[letter])}
