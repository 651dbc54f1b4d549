# ruff: noqa: RUF001 - Chinese punctuation
"""CMMMU: Chinese exams with choices, true or false statements, and blanks to fill."""

from __future__ import annotations

import re

from eyechart.metrics.cells import Row, as_text
from eyechart.scorers.rules import Reading

_POSITIVE = ("正确", "对", "准确", "肯定", "对的")
_NEGATIVE = ("不对", "错误", "不正确", "不准确", "不合适", "否定", "错的", "错")
_AMBIGUOUS = ("对错", "是否正确", "否正确", "或者", "是否", "正确性", "对不")
_STATEMENT_SIGNS = ("是", "为", "所以", "判断", "陈述", "说法", "表达", "答案", "结果")
_BLANK_SIGNS = ("是", "为", "所以", "等于", "方案", "选择", "正确答案", "因此", "最后", "答案", "结果")
_NUMBERS = tuple(
    re.compile(pattern)
    for pattern in (
        r"-?\d{1,3}(?:，\d{3})+",
        r"-?\d+(?:\.\d+)?[eE][+-]?\d+",
        r"-?(?:\d+\.\d+|\.\d+|\d+)(?![eE][+-]?\d+)(?!，\d)",
    )
)


def chinese_exam(row: Row, text: str) -> Reading:
    """Read and compare an answer by the row's ``type``.

    What cannot be read is wrong (VLMEvalKit draws lots), a blank counts once, and 不对 says no.
    """
    return _KINDS.get(as_text(row["type"]), _blank)(row, text)


def _choice(row: Row, text: str) -> Reading:
    options = {letter: as_text(row.get(f"option{i}")) for i, letter in enumerate("ABCD", 1)}
    said = text
    for sign in ",.!?;:'":
        said = said.strip(sign)
    counts = {letter: said.count(f"({letter})") for letter in options}
    if not any(counts.values()):
        counts = {letter: said.count(letter) for letter in options}
    if not any(counts.values()):
        counts = {letter: said.count(words) if words else 0 for letter, words in options.items()}
    most = max(counts.values())
    read = "".join(letter for letter, count in counts.items() if count == most) if most else ""
    return Reading(read or None, float(read == as_text(row["answer"])))


def _statement(row: Row, text: str) -> Reading:
    parts = [part for part in _stated(text, _STATEMENT_SIGNS) if not any(word in part for word in _AMBIGUOUS)]
    no = sum(any(word in part for word in _NEGATIVE) for part in parts)
    yes = sum(any(word in part for word in _POSITIVE) for part in parts) - _both(parts)
    read = "对" if yes > no else "错" if no > yes else None
    return Reading(read, float(read == as_text(row["answer"])))


def _both(parts: list[str]) -> int:
    return sum(any(w in part for w in _NEGATIVE) and any(w in part for w in _POSITIVE) for part in parts)


def _blank(row: Row, text: str) -> Reading:
    target = as_text(row["answer"])
    wanted = _plain(target, target)
    parts = _stated(text, _BLANK_SIGNS, last="=")
    found = [*parts, *(number for part in parts for pattern in _NUMBERS for number in pattern.findall(part))]
    said = [value for part in found if (value := _plain(part, target)) is not None]
    if isinstance(wanted, float):
        right = wanted in said
    else:
        right = any(isinstance(value, str) and bool(wanted) and str(wanted) in value for value in said)
    return Reading("; ".join(map(str, said)), float(right))


def _plain(text: str, target: str) -> float | str | None:
    """Return a number to two digits, or a text unless it is much longer than the answer."""
    try:
        return round(float(text.strip().replace(",", "")), 2)
    except ValueError:
        pass
    said = text.strip()
    too_long = len(said) > len(target) + 20 or _letters(said) > _letters(target) + 2
    return None if too_long else said


def _letters(text: str) -> int:
    return sum(letter.isascii() and letter.isalpha() for letter in text)


def _stated(text: str, signs: tuple[str, ...], last: str = "") -> list[str]:
    """Return what each sentence says after the last of some words; the whole text where none does."""
    whole = text.strip("。").strip()
    sentences = re.split(r"。|\n", whole)
    found = []
    for i, sentence in enumerate(sentences):
        words = (*signs, last) if last and i == len(sentences) - 1 else signs
        ends = [sentence.split(word)[-1].strip() for word in words if word in sentence]
        ends = [end for end in ends if end]
        if ends and min(ends, key=len) not in {":", ",", ".", "!", "?", ";", "'"}:
            found.append(min(ends, key=len))
    return found or [whole]


_KINDS = {"选择": _choice, "判断": _statement}
