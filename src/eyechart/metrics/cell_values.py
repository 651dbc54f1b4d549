"""Values of table cells and short texts: missing cells, numbers, lists, number words; nothing is evaluated."""

import ast
import json
import math
import re
import string
import warnings
from collections.abc import Mapping
from itertools import accumulate, chain

Row = Mapping[str, object]

LETTERS = string.ascii_uppercase
"""Names of the option columns of a multiple-choice table."""

# One element of a list literal and its terminator. Lists are read flat, element by element, because a hostile cell can
# exhaust the stack of a parser for nested literals.
_ELEMENT = re.compile(
    r"""\s*(?P<value>'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|None|True|False|[-+]?[0-9.][0-9.eE+_-]{0,40})\s*(?P<end>,|$)""",
    re.DOTALL,
)


def is_missing(value: object) -> bool:
    """Whether a cell is absent: `None` or NaN. The texts "None", "NA" and "nan" are answers."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def as_text(value: object) -> str:
    """Return a cell as text; "" for a missing cell."""
    if isinstance(value, str):
        return value
    return "" if is_missing(value) else str(value)


def finite_number(text: str) -> float | None:
    """Parse a finite number; None for words, "nan" and "inf"."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def as_score(value: object) -> float:
    """Return a stored score as a number; spreadsheets also contain "True", "False" and numbers as text."""
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
    """Parse a flat Python list of texts and numbers; None for any other text."""
    text = text.strip()
    if not (text.startswith("[") and text.endswith("]")):
        return None
    body, values, position = text[1:-1].rstrip(), list[object](), 0
    while position < len(body):
        element = _ELEMENT.match(body, position)
        if element is None:
            return None
        source = element["value"]
        try:
            plain = source[0] in "'\"" and "\\" not in source
            values.append(source[1:-1] if plain else _evaluate(source))
        except (ValueError, SyntaxError):
            return None
        position = element.end()
    return values


def _evaluate(literal: str) -> object:
    with warnings.catch_warnings():  # '\d' in a cell is data, not a mistake in our source code
        warnings.simplefilter("ignore")
        return ast.literal_eval(literal)


def text_list(cell: object) -> list[str]:
    """Return the texts of a cell: a list, a list literal, or a single text (VLMEvalKit's convention for lists)."""
    if is_missing(cell):
        return []
    values = literal_list(cell) if isinstance(cell, str) else cell
    if isinstance(values, list | tuple):
        return [as_text(value) for value in values]
    return [as_text(cell)]


def options_of(row: Row) -> dict[str, str]:
    """Return the options of a multiple-choice row: its non-missing single-letter columns, in order."""
    return {letter: as_text(row[letter]) for letter in LETTERS if letter in row and not is_missing(row[letter])}


# Safe parsing of JSON and Python literals, bounded in size and depth, without evaluation.

MAX_LENGTH = 200_000
MAX_DEPTH = 40
_FENCE = re.compile(r"```[a-zA-Z]*\s*(.*?)```", re.DOTALL)


def unfenced(text: str) -> str:
    """Return the content of the first code fence, or the whole text."""
    found = _FENCE.search(text)
    return (found[1] if found else text).strip()


def read_literal(text: str) -> object:
    """Return the value of a JSON or Python literal; None if the text is not one, or too large for an answer."""
    brackets = accumulate((letter in "([{") - (letter in ")]}") for letter in text)
    signs = (len(run[0]) for run in re.finditer(r"[-+~]+", text))  # before a number they nest as well: ------1
    if len(text) > MAX_LENGTH or max(chain([0], brackets, signs)) > MAX_DEPTH:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return _evaluate(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def numbers(value: object) -> list[float]:
    """Return the numbers of a flat list or tuple; an empty list if it holds anything else."""
    if not isinstance(value, list | tuple) or any(isinstance(v, bool) or not isinstance(v, int | float) for v in value):
        return []
    return [float(v) for v in value]


SMALL = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
"""The numbers below twenty."""
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_VALUES = (
    {word: i for i, word in enumerate(SMALL)}
    | {word: 10 * i for i, word in enumerate(_TENS, 2)}
    | {"hundred": 100, "thousand": 1000}
)
_WORD = re.compile(r"\b(?:" + "|".join(_VALUES) + r")\b")
_MAX_DIGITS = 30


def only_number(text: str) -> int | None:
    """Return the only number of a text, in digits or words; None for none or several.

    All number words form one number, two hundred five; zero in words counts as none.
    """
    low = text.lower()
    found = [int(digits) for digits in re.findall(r"\d+", low) if len(digits) <= _MAX_DIGITS]
    total = current = 0
    for value in map(_VALUES.__getitem__, _WORD.findall(low)):
        if value >= 100:
            total, current = total + max(current, 1) * value, 0
        else:
            current += value
    found += [total + current] if total + current else []
    return found[0] if len(found) == 1 else None
