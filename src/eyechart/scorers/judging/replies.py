"""How a judge's reply is read: one function per kind of reply. None is a reply that cannot be read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from eyechart.metrics.answers import infer_choice, yes_or_no
from eyechart.metrics.cells import Row, as_text, finite_number, options_of, text_list

NO_ANSWER = "NONE"
"""What a judge replies where a solution gives no answer."""
Known = Mapping[str, Any]
"""What a form says of its replies: ``highest``, ``longest``, ``names``, ``words``, ``labels``, ``column``."""


def _option(reply: str, row: Row, known: Known) -> str | None:  # noqa: ARG001 - one signature for all
    """Read a letter, or Z for none of the options."""
    return infer_choice(reply, options_of(row))


def _yes_no(reply: str, row: Row, known: Known) -> str | None:  # noqa: ARG001
    """Read Yes or No; Unknown is a verdict only when the judge says so and nothing else."""
    found = yes_or_no(reply)
    if found == "Unknown":
        return "Unknown" if reply.strip().strip(".").lower() == "unknown" else None
    return found


def _number(reply: str, row: Row, known: Known) -> float | None:  # noqa: ARG001
    """Read a grade from 0 to ``highest`` as a share of it; nothing else may be in the reply."""
    grade, highest = finite_number(reply), float(known.get("highest", 1))
    return grade / highest if grade is not None and 0 <= grade <= highest else None


def _word(reply: str, row: Row, known: Known) -> float | None:  # noqa: ARG001
    """Read the grade of the one word of ``words`` that the reply is, or begins with before a punctuation mark."""
    grades = {word.lower(): float(grade) for word, grade in known["words"].items()}
    return grades.get(_first_word(reply))


def _label(reply: str, row: Row, known: Known) -> str | None:  # noqa: ARG001
    """Read one of ``labels`` in the same way, as the words in which an answer would say it."""
    labels = {label.lower(): str(words) for label, words in known["labels"].items()}
    return labels.get(_first_word(reply))


def _first_word(reply: str) -> str:
    return re.split(r"[.,:;!\n]", reply.strip(), maxsplit=1)[0].strip().strip("*\"'").lower()


def _text(reply: str, row: Row, known: Known) -> str | None:  # noqa: ARG001
    """Read an answer as written; one that is longer than ``longest`` is not an answer."""
    text = reply.strip()
    return text if 0 < len(text) <= known.get("longest", 500) else None


def _grades(reply: str, row: Row, known: Known) -> dict[str, float] | None:  # noqa: ARG001
    """Read a JSON object of grades from 0 to ``highest``; all ``names`` must be there."""
    found = re.search(r"\{[^{}]{0,2000}\}", reply)
    try:
        grades = json.loads(found[0]) if found else None
        values = {name: float(grades[name]) for name in known["names"]} if isinstance(grades, dict) else {}
    except (ValueError, TypeError, KeyError):
        return None
    return values if values and all(0 <= value <= known.get("highest", 10) for value in values.values()) else None


def _marks(reply: str, row: Row, known: Known) -> list[float] | None:
    """Read a JSON list of marks, each from 0 to the highest that ``column`` lists; all must be there."""
    found, highest = re.search(r"\[[^\[\]]{0,2000}\]", reply), highest_marks(row, known["column"])
    try:
        marks = [float(mark) for mark in json.loads(found[0])] if found else []
    except (ValueError, TypeError):
        return None
    whole = len(marks) == len(highest) and all(0 <= mark <= most for mark, most in zip(marks, highest, strict=True))
    return marks if whole else None


def highest_marks(row: Row, column: str) -> list[float]:
    """Return the highest mark of each part of an answer, from a column that lists them.

    Raises:
        ValueError: If they are no numbers above 0.
    """
    marks = [finite_number(text) for text in text_list(row.get(column))]
    found = [mark for mark in marks if mark is not None and mark > 0]
    if not found or len(found) < len(marks):
        raise ValueError(f"index {row['index']}: {column!r} is no list of numbers above 0: {row.get(column)!r}")
    return found


def _pair(reply: str, row: Row, known: Known) -> tuple[float, float] | None:  # noqa: ARG001
    """Read two grades from 0 to ``highest`` from the first line."""
    pair = two_numbers(reply)
    return pair if pair and all(0 <= grade <= known.get("highest", 10) for grade in pair) else None


def two_numbers(review: object) -> tuple[float, float] | None:
    """Read two numbers from the first line of a review ("8 9" or "8,9"); None when they are not there."""
    parts = as_text(review).split("\n")[0].replace(",", " ").split(" ")
    found = [finite_number(part) if part else None for part in parts]
    if len(found) != 2 or found[0] is None or found[1] is None:
        return None
    return found[0], found[1]


Reader = Callable[[str, Row, Known], Any]
READERS: Mapping[str, Reader] = {
    "option": _option,
    "yes_no": _yes_no,
    "number": _number,
    "word": _word,
    "label": _label,
    "text": _text,
    "grades": _grades,
    "pair": _pair,
    "marks": _marks,
}
"""Kinds of reply by the name that a form gives (``reads``)."""
