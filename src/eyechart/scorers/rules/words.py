"""Answers that are a word, a phrase, a number of things or a letter."""

from __future__ import annotations

import re

from eyechart.metrics.answers import open_score
from eyechart.metrics.cells import Row, as_text
from eyechart.metrics.texts.number_words import SMALL
from eyechart.metrics.texts.vqa_text import vqa_normalize
from eyechart.scorers.rules import Reading

_BRACES = re.compile(r"\{(.*?)\}")
_COUNT_WORDS = (*SMALL, "twenty")
_COUNT = re.compile(r"\b(?:[0-9]|1[0-9]|20|" + "|".join(_COUNT_WORDS) + r")\b")


def metric(row: Row, text: str, *, by: str, column: str = "answer") -> Reading:
    """Score by a metric of open questions; nothing is a wrong answer."""
    return Reading(text, open_score(text, row.get(column), by) if text.strip() else 0.0)


def contains(row: Row, text: str, *, column: str = "answer", braces: bool = False, case: bool = False) -> Reading:
    """Look for the answer in the text, or in what stands last in braces there."""
    if braces:
        text = next(reversed(_BRACES.findall(text)), "")
    answer = as_text(row[column]).strip()
    said, wanted = (text, answer) if case else (text.lower(), answer.lower())
    return Reading(text, float(bool(wanted) and wanted in said))


def equals(row: Row, text: str, *, column: str = "answer") -> Reading:
    """Compare up to case and outer space."""
    said = text.strip()
    return Reading(said, float(bool(said) and said.lower() == as_text(row[column]).strip().lower()))


def marked(row: Row, text: str, *, pattern: str, form: str) -> Reading:
    """Compare the first thing of a pattern, written in a form; without any, look for the answer."""
    found = re.search(pattern, text.lower())
    wanted = as_text(row["answer"]).strip().lower()
    if found:
        said = form.format(*found.groups())
        return Reading(said, float(said == wanted))
    return Reading(text, float(bool(text) and wanted in text.lower()))


def count(row: Row, text: str) -> Reading:
    """Compare the first number from 0 to 20 in the text, in digits or in words."""
    found = _COUNT.search(text.lower())
    if not found:
        return Reading(None, 0.0)
    value = int(found[0]) if found[0].isdigit() else _COUNT_WORDS.index(found[0])
    return Reading(str(value), float(value == float(as_text(row["answer"]))))


def lettered(row: Row, text: str) -> Reading:
    """Compare with an answer like "A. cat": a capital letter first decides, other texts must hold the words."""
    answer = as_text(row["answer"])
    if len(text) == 1 or text[:1] in {"A", "B", "C", "D"}:
        return Reading(text[0], float(text[0] == answer[0]))
    words = answer[3:].lower()
    return Reading(text, float(bool(words) and words in text.lower()))


_TEMPLATES = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"^(yes|no|\w)[,.; \n*]+",
        r"[\n*{]+(yes|no|\w)[,.; \n*}]+",
        r"(yes|no|\w) is the correct answer",
        r"answer is[:;*\n ]*(yes|no|\w)",
        r"answer[:;*\n ]*(yes|no|\w)",
        r"choice is[:;*\n ]*(yes|no|\w)",
        r"choice[:;*\n ]*(yes|no|\w)",
        r"option is[:;*\n ]*(yes|no|\w)",
        r"Assistant[:;*\n ]*(yes|no|\w)",
    )
)


def stated(row: Row, text: str, *, letters: str = "ABCDEF") -> Reading:
    """Read a letter, or yes or no where the row's ``question_type`` is YORN, where answers state it."""
    options = {"YES", "NO"} if as_text(row.get("question_type")) == "YORN" else {*letters}
    said = text.strip()
    if len(said.split()) >= 2:
        found = [match[1].upper() for pattern in _TEMPLATES if (match := pattern.search(said))]
    else:
        found = [re.split(r"[,. :;\n]", said)[0].upper()]
    read = next((option for option in found if option in options), None)
    return Reading(read, float(read is not None and read == as_text(row["answer"]).strip().upper()))


def biased(row: Row, text: str) -> Reading:
    """Compare with the truth (``ground_truth``) and with what a model expects to see (``expected_bias``)."""
    said = _bare(text)
    wanted, expected = _bare(row["ground_truth"]), _bare(row["expected_bias"])
    right, bias = bool(said) and said == wanted, bool(said) and said == expected
    digits = _digits(said)
    if not right and not bias and digits:
        right = bool(_digits(wanted)) and digits == _digits(wanted)
        bias = bool(_digits(expected)) and digits == _digits(expected)
    return Reading(said, float(right), facts={"bias": float(bias)})


def _bare(value: object) -> str:
    return as_text(value).strip().lower().strip("{}").strip()


def _digits(text: str) -> str:
    return "".join(letter for letter in text if letter.isdigit())


def niah(row: Row, text: str) -> Reading:
    """Compare an option's letter with its number (0 is A), where the category asks for one; else look for the words."""
    if as_text(row["category"]) in {"visual-reasoning", "find-image"}:
        bare = text.strip(".")
        said = bare if bare.isdigit() else re.sub(r"the answer is|\*", "", bare.lower()).split(".")[0].strip()
        number = int(said[:9]) if bare.isdigit() else ord(said) - ord("a") if len(said) == 1 else None
        return Reading(said, float(number is not None and number == int(float(as_text(row["answer"])))))
    said = vqa_normalize(text.strip("."))
    wanted = vqa_normalize(as_text(row["answer"]))
    return Reading(said, float(bool(wanted) and re.search(rf"\b{re.escape(wanted)}\b", said) is not None))
