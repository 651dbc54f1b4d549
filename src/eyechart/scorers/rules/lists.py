"""Answers that are a list of numbers, or two scores: SSI-Bench, VLRMBench, GO-Bench."""

from __future__ import annotations

import re
from itertools import combinations

from eyechart.metrics.cells import Row, as_text
from eyechart.metrics.texts.literals import numbers, read_literal
from eyechart.scorers.rules import Reading

_MAX_NUMBER = 9


def ranking(row: Row, text: str) -> Reading:
    """Compare the last list of numbers with the right order: as a whole, and pair by pair (SSI-Bench)."""
    wanted = numbers(read_literal(as_text(row["answer"])))
    lists = [found for part in re.findall(r"\[[^\[\]]{0,400}\]", text) if (found := numbers(read_literal(part)))]
    said = lists[-1] if lists and not re.search(r"\[\s*\[", text) else []
    return Reading(str(said) if said else None, float(bool(said) and said == wanted), {"pairs": _pairs(wanted, said)})


def _pairs(wanted: list[float], said: list[float]) -> float:
    if len(wanted) != len(said) or sorted(wanted) != sorted(said) or len({*said}) != len(said):
        return 0.0
    if len(wanted) < 2:
        return 1.0
    pairs = list(combinations(wanted, 2))
    return sum(said.index(a) < said.index(b) for a, b in pairs) / len(pairs)


def steps(row: Row, text: str) -> Reading:
    """Read a verdict of 0 or 1 for each step, a yes or no, or two scores, by the row's category (VLRMBench)."""
    kind = as_text(row["category"])
    found = [int(digits[:_MAX_NUMBER]) for digits in re.findall(r"\d+", text)]
    if kind == "multi_solution":
        scores = [*found[-2:], 0, 0][:2] if len(found) < 2 else found[-2:]
        return Reading(str(scores), 0.0, facts={"scores": scores})
    if kind == "foresight":
        wanted = r"\b(yes|true)\b" if as_text(row["task_gt"]).lower() in {"true", "1"} else r"\b(no|false)\b"
        return Reading(text, float(re.search(wanted, text, re.IGNORECASE) is not None))
    gold = [int(value) for value in numbers(read_literal(as_text(row["answer"])))]
    said = [min(value, 1) for value in found][: len(gold)]
    said += [0] * (len(gold) - len(said))
    right = sum(a == b for a, b in zip(said, gold, strict=True)) / len(gold) if gold else 0.0
    return Reading(str(said), right, facts={"said": said, "gold": gold})


_GIVEN = {
    "reality": r"Reality Assessment Score:\s*([\d.]+)",
    "aesthetics": r"Aesthetics Rating:\s*([\d.]+)",
    "consistency": r"Instruction Consistency Rating:\s*([\d.]+)",
}
_SAID = {
    "reality": r"Total Score(?: for Reality Assessment)?:[\s*]*([\d.]+)",
    "aesthetics": r"Aesthetics Rating\D*([\d.]+)",
    "consistency": r"Instruction Consistency Rating\D*([\d.]+)",
}


def ratings(row: Row, text: str) -> Reading:
    """Compare three ratings of an image with those of people: half a point off is worth nothing (GO-Bench)."""
    wanted, said = _rated(_GIVEN, as_text(row["answer"])), _rated(_SAID, text)
    if not wanted or not said:
        return Reading(None, 0.0, dict.fromkeys(_GIVEN, 0.0), {"unread": 1.0})
    near = {name: max(0.0, (0.5 - abs(wanted[name] - said[name])) / 0.5) for name in _GIVEN}
    return Reading(str(said), sum(near.values()) / 3, near, {"unread": 0.0})


def _rated(patterns: dict[str, str], text: str) -> dict[str, float]:
    found = {name: match[1] for name, pattern in patterns.items() if (match := re.search(pattern, text, re.IGNORECASE))}
    try:
        return {name: float(number.rstrip(".")) for name, number in found.items()} if len(found) == 3 else {}
    except ValueError:
        return {}
