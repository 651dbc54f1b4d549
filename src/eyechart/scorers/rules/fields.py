"""Answers in a field of a JSON object, or named in a text: VisFactor, Spatial457, VLM2-Bench."""

from __future__ import annotations

import re

from eyechart.metrics.cells import Row, as_text
from eyechart.metrics.texts.number_words import SMALL, only_number
from eyechart.scorers.rules import Reading

_FIELD = re.compile(r'\{\s*"answer"\s*:\s*(.+?)\s*\}')
_YES, _NO = {"t", "y", "1", "true", "yes"}, {"f", "n", "0", "false", "no"}
_WORDS = {"CS1", "CS2", "CS3"}
_NUMBERS = {"CF3": 2, "I3": 1, "MA1": 1, "SS3": 1}


def json_field(row: Row, text: str) -> Reading:
    """Compare the last field "answer" by the row's ``category_id``: true or false, words, numbers or a letter."""
    kind, target = as_text(row["category_id"]), as_text(row["answer"])
    fields = _FIELD.findall(text)
    said = fields[-1].strip().strip("\"'") if fields else ""
    if kind in _WORDS:
        return Reading(said, float(bool(said) and said.lower() in [word.lower() for word in target.split(",")]))
    if kind in _NUMBERS:
        count = _NUMBERS[kind]
        found = re.findall(r"\d+", said or text)[-count:]
        read = ("" if len(found) < count else found[0] if count == 1 else f"({', '.join(found)})") or None
        return Reading(read, float(read == target))
    if kind == "VZ3" and as_text(row.get("additional")).isdigit():
        read = next((letter for letter in reversed(said or text) if letter.isupper()), None)
        return Reading(read, float(read == target))
    read = "T" if said.lower() in _YES else "F" if said.lower() in _NO else None
    return Reading(read, float(read == target))


_SHAPES = {
    "car": "suv wagon minivan sedan truck addi car",
    "bus": "articulated regular double school bus",
    "motorbike": "chopper dirtbike scooter cruiser motorbike",
    "aeroplane": "jet fighter biplane airliner aeroplane",
    "bicycle": "road utility mountain tandem bicycle",
}
_SHAPE_OF = {name: shape for shape, names in _SHAPES.items() for name in names.split()}
_DIGITS = SMALL[:11]
_NAMED = (r"Answer': '(.*?)'", r'Answer": "(.*?)"', r"Answer': (\d)")
_REASONS = (r"Reasoning': '(.*?)'", r'Reasoning": "(.*?)"')


def named_answer(row: Row, text: str) -> Reading:
    """Compare the field Answer; a vehicle of the same shape is right (Spatial457).

    Without such a field the whole text is the answer (VLMEvalKit can also draw lots).
    """
    said = _first(_NAMED, text)
    reason = _first(_REASONS, text)
    target = as_text(row["answer"])
    read = text if said is None else said
    facts = {
        "format_error": float(said is None),
        "reasoning": "Format Error. All of the resposne as the answer." if reason is None else reason,
    }
    return Reading(read, float(bool(text) and _same_thing(read, target)), facts=facts)


def _first(patterns: tuple[str, ...], text: str) -> str | None:
    return next((found[1] for pattern in patterns if (found := re.search(pattern, text))), None)


def _same_thing(said: str, target: str) -> bool:
    said = "no" if said.lower() == "none" else said
    first, other = (text.lower().split(" ")[0] for text in (said, target))
    return (
        said.lower() == target.lower()
        or (said == "0" and target == "No")
        or (said.lower() in _DIGITS and str(_DIGITS.index(said.lower())) == target)
        or (target.lower() == "yes" and said in {*"123456789"})
        or (first in _SHAPE_OF and _SHAPE_OF[first] == _SHAPE_OF.get(other))
    )


def pair_counts(row: Row, text: str) -> Reading:
    """Compare by the task (VLM2-Bench): T or F of a pair, a count with part of the score for near ones, or a letter."""
    kind, target = as_text(row["category"]), as_text(row["answer"]).strip()
    if kind.endswith("-cnt"):
        return _count(text, int(target), 2)
    if kind.endswith("-grp"):
        if len(re.findall(r"\([A-Z]\)", text)) > 1:
            return Reading(None, 0.0)
        read = text.split(")", maxsplit=1)[0].strip()
        return Reading(read, float(read == target.split(")")[0].strip()))
    found = re.findall(r"\b(t|f|true|false)\b", text, re.IGNORECASE)
    read = found[0][0].upper() if len(found) == 1 else ""
    return Reading(read or None, float(read == target.upper()))


def _count(text: str, target: int, images: int) -> Reading:
    said = only_number(text)
    if said is None:
        return Reading(None, 0.0)
    if said == target:
        return Reading(str(said), 1.0)
    most = max(target - 1, images - target, 1)
    penalty = 4 / images * (abs(said - target) / most) ** 0.1
    return Reading(str(said), max(0.0, 1 - penalty))
