# ruff: noqa: RUF001 - Chinese punctuation
"""Exercises of mathematics and physics: the boxed or stated answer, compared by value."""

from __future__ import annotations

import json
import re

from eyechart.metrics.cells import Row, as_text, text_list
from eyechart.metrics.texts.math_answers import math_close, math_equal, math_value
from eyechart.metrics.texts.math_text import boxed
from eyechart.scorers.rules import Reading


def solution(row: Row, text: str, *, column: str = "answer") -> Reading:
    """Compare what is boxed, else what the last line has between dollars, else the whole text."""
    said = ", ".join(boxed(text)) or ", ".join(re.findall(r"\$(.+?)\$", text.strip().split("\n")[-1])) or text
    said = re.sub(r"\s*c?m(?:\^\{?2\}?)?$", "", said.strip())
    return Reading(said, float(bool(said) and math_equal(said, row[column])))


def boxed_answer(row: Row, text: str) -> Reading:
    """Compare what is boxed: the letters of a choice (``task_type`` mc), or a value."""
    inside = boxed(text)
    if as_text(row.get("task_type")) == "mc":
        said = [letter for letter in (inside[0] if inside else "") if letter.isupper()]
        wanted = text_list(row["answer"])
        return Reading("".join(said), float(len(said) == len(wanted) and {*said} == {*wanted}))
    said_text = inside[-1] if inside else ""
    return Reading(said_text, float(bool(inside) and math_equal(said_text, next(iter(text_list(row["answer"])), ""))))


def short_answer(row: Row, text: str) -> Reading:
    """Compare the JSON field "short answer", or the whole text, by the row's ``answer_type`` (DynaMath)."""
    body = text[text.find("{") : text.rfind("}") + 1] if 0 <= text.find("{") < text.rfind("}") else text
    kind, target = as_text(row["answer_type"]), as_text(row["answer"])
    for said in (_field(body.replace("\\", "")), body):
        found = _typed(said, kind) if said is not None else None
        if found is not None:
            return Reading(found, float(_same(found, target, kind)))
    return Reading(None, float(kind == "multiple choice" and target in body[:3].upper()))


def _field(body: str) -> str | None:
    try:
        found = json.loads(body, strict=False)
    except (ValueError, RecursionError):
        return None
    value = found.get("short answer") if isinstance(found, dict) else None
    return None if value is None else str(value)


def _typed(text: str, kind: str) -> str | None:
    if kind == "float":
        first = text.split(" ", maxsplit=1)[0]
        try:
            return str(float(first.split("π")[0]) * (3.141592653589793 if "π" in first else 1))
        except ValueError:
            return None
    if kind == "multiple choice":
        if len(text) == 1:
            return text.upper()
        letters = [letter for letter in "ABCDE" if letter in text.upper()]
        return letters[0] if len(letters) == 1 else None
    return text


def _same(said: str, target: str, kind: str) -> bool:
    if kind == "float":
        return abs(float(said) - float(target)) <= 0.001
    if kind == "multiple choice":
        return said == target
    return bool(said.strip()) and said.lower() in target.lower()


_STATED = re.compile(
    r"\b(?:final\s+answer|correct\s+answer)\b[^:：]*[:：]\s*(.*?)(?=\n\n\n|\Z)", re.IGNORECASE | re.DOTALL
)
_LETTER = re.compile(r"\b(?:correct|answer|option|Answer|Option|Correct)\b[\s\S]*?([A-D])")


def stated_value(row: Row, text: str) -> Reading:
    """Look for the right answer in the text, or compare what is boxed or stated as the final answer (PhyX)."""
    target, said = as_text(row["answer"]).strip(), text.strip()
    found = next(iter(boxed(said)), None)
    stated = _STATED.search(said) if found is None else None
    extracted = found if found is not None else stated[1] if stated else said
    right = bool(said) and (target in said or math_equal(extracted, target))
    return Reading(extracted, float(right))


def stated_letter(row: Row, text: str) -> Reading:
    """Read the letter after a word like answer or option, or before a colon (PhyX)."""
    target = as_text(row["answer"]).strip()
    found = _LETTER.search(text)
    said = found[1] if found else next(reversed(re.findall(r"([ABCD]):", text)), None)
    marked = any(form in text for form in (f"{target}:", f"{target}**", f"**{target}"))
    return Reading(said, float(said == target or marked))


def competition(row: Row, text: str) -> Reading:
    """Compare the final answer of a competition's problem, within the error that the row allows (OlympiadBench)."""
    words = "所以最终答案是(.*)" if "zh" in as_text(row.get("source")) else "So the final answer is (.*)"
    stated = re.findall(words, text)
    said = stated[-1].strip() if stated else text
    said = ", ".join(boxed(said)) or ", ".join(re.findall(r"\$(.+?)\$", said.strip().split("\n")[-1])) or said
    target = as_text(row["final_answer"]).removeprefix("['").removesuffix("']")
    error = as_text(row.get("error")).split(",")[0]
    tolerance = float(error) * 1.01 if error else 0.0
    return Reading(said, float(bool(said) and math_close(said, target, tolerance)))


def points(row: Row, text: str) -> Reading:
    """Give the points of each part whose last boxes hold the right value (HiPhO, its coarse score)."""
    targets = text_list(row["answer"])
    worth = [float(number) for number in text_list(row.get("points"))]
    worth = worth if len(worth) == len(targets) else [1.0] * len(targets)
    boxes = boxed(text)[-len(targets) :]
    boxes = [""] * (len(targets) - len(boxes)) + boxes
    hits = [bool(said) and _same_value(said, target) for said, target in zip(boxes, targets, strict=True)]
    got = sum(part for part, hit in zip(worth, hits, strict=True) if hit)
    return Reading(str(boxes), got / sum(worth) if sum(worth) else 0.0, facts={"points_all": sum(worth)})


def _same_value(said: str, target: str) -> bool:
    """Compare values to two per mille, as physics rounds; an interval holds its numbers."""
    if math_equal(said, target):
        return True
    try:
        number, wanted = math_value(said), math_value(target)
        return abs(complex(number) - complex(wanted)) <= 2e-3 * abs(complex(wanted))
    except (ValueError, OverflowError, ZeroDivisionError):
        return False


def mathematics(row: Row, text: str, *, column: str = "answer") -> Reading:
    """Compare the boxed or whole text with one of the answers, by value."""
    said = next(reversed(boxed(text)), text).strip()
    right = bool(said) and any(math_equal(said, target) for target in text_list(row[column]))
    return Reading(said, float(right))


_FINAL = re.compile(
    r"(?:final\s+answer|answer\s+is|result\s+is|####|答案)\s*[:\-=]?\s*\$?\s*(-?[\d,]+(?:\.\d+)?(?:/\d+)?)",
    re.IGNORECASE,
)
_ANY = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:/\d+)?")


def final_number(row: Row, text: str) -> Reading:
    """Compare the number after "final answer" and its like, else what is boxed, else the last one (GSM8K-V)."""
    stated = _FINAL.findall(text) or boxed(text) or _ANY.findall(text)
    said = stated[-1].rstrip(",") if stated else None
    return Reading(said, float(said is not None and math_close(said, row["answer"], 1e-3)))
