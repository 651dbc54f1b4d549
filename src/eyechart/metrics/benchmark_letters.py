"""Answers as single benchmarks read them: letters and numbers of spatial benchmarks, VLMs Are Blind."""

import re
from collections.abc import Iterable, Mapping

import numpy as np

from eyechart.metrics.cell_values import SMALL, Row, as_text, literal_list

_INVISIBLE = re.compile("[\u200b\u200c\u200d\ufeff]")
_TAG = re.compile(
    r"<\s{0,9}answer\b[^>]{0,99}>\s{0,99}([A-J])(?:.*?)<\s{0,9}/\s{0,9}answer\s{0,9}>", re.IGNORECASE | re.DOTALL
)
_OPENING, _CLOSING = r"[(\[{\uff08【]?\s{0,9}", r"\s{0,9}[)\]}\uff09】]?"
_BEFORE_TAG = tuple(
    re.compile(rf"(?<![A-Za-z]){_OPENING}([A-F]){_CLOSING}\s{{0,9}}</\s{{0,9}}{tag}\s{{0,9}}>", re.IGNORECASE)
    for tag in ("answer", "think")
)
_ENUMERATION = re.compile(r"[*_>\-\s]*(?:option|选项)\s+[A-J]\s*[:\uff1a]", re.IGNORECASE)
_MARKS = r"[*_`>\uff08\uff09\[\]【】()]*"
_LONE = re.compile(rf"{_MARKS}\s*([A-Fa-f])\s*[*_`\uff08\uff09\[\]【】()]*")
_LABEL = re.compile(r"([A-F])\s{0,9}[.\uff0e:\uff1a)\]】、-]\s", re.IGNORECASE)
_WORD = re.compile(
    r"(?<![A-Za-z])[*_`\uff08\[{(]{0,9}\s{0,9}([A-F])\s{0,9}[*_`\uff09\]})]{0,9}(?=$|[\s.,:;!?)\]】》」』\uff0c。\uff1b、\uff1a\uff09])"
)
_STATED = re.compile(
    r"(?:final\s{0,9}answer|the\s{0,9}answer\s{0,9}is|answer(?:\s{0,9}is)?|correct\s{0,9}answer|"
    r"答案|最终答案|结论|所以|因此|我选(?:择)?|选择|选)"
    rf"\s{{0,9}}[:\uff1a>\uff1d=]?\s{{0,9}}{_OPENING}([A-F]){_CLOSING}(?:\b|[.)、。])",
    re.IGNORECASE,
)
_ALONE = re.compile(rf"(?<![A-Za-z]){_OPENING}([A-F]){_CLOSING}(?![A-Za-z])")
_LINES, _WINDOW = 6, 800
"""Lines and characters at the end of an answer that are searched."""


def spatial_letter(answer: str) -> str | None:
    """Return the letter that an answer ends in, or None (VLMEvalKit's `can_match_option`).

    In order: a letter in answer tags; one before a closing tag; the last of the final six lines that is a letter,
    starts with "B." or names one letter only; a letter after "answer" and the like; the only standalone letter.
    """
    text = _INVISIBLE.sub("", answer.strip())
    tagged = _TAG.search(text)
    if tagged:
        return tagged[1].upper()
    tail = text[-_WINDOW:]
    before = next((found for rule in _BEFORE_TAG if (found := rule.search(tail))), None)
    if before:
        return before[1].upper()
    for part in (after_thinking(text), tail):
        letter = _from_lines(part.splitlines()[-_LINES:])
        if letter:
            return letter
    stated = _STATED.search(text)
    if stated:
        return stated[1].upper()
    lines = (line for line in text.splitlines() if not _ENUMERATION.match(line))
    alone = {letter for line in lines for letter in _ALONE.findall(line)}
    return alone.pop() if len(alone) == 1 else None


def after_thinking(text: str) -> str:
    """Return the text after the last closing think tag, else after the last opening one, else everything."""
    for tag in (r"</\s{0,9}think\s{0,9}>", r"<\s{0,9}think\s{0,9}>"):
        ends = [found.end() for found in re.finditer(tag, text, re.IGNORECASE)]
        if ends:
            return text[ends[-1] :].strip()
    return text


def _from_lines(lines: Iterable[str]) -> str | None:
    for line in reversed([line.strip() for line in lines]):
        if not line or _ENUMERATION.match(line):
            continue
        found = _LONE.fullmatch(line) or _LABEL.match(line)
        if found:
            return found[1].upper()
        words = {str(word) for word in _WORD.findall(line)}
        if len(words) == 1:
            return words.pop()
    return None


_NUMBER = re.compile(r"[-+]?(?:\d*\.\d+|\d+)(?:[eE][-+]?\d+)?")
_TAGGED_NUMBER = re.compile(
    rf"<\s{{0,9}}answer\b[^>]{{0,99}}>\s{{0,99}}({_NUMBER.pattern})(?:[^\d<][^<]*)?<\s{{0,9}}/\s{{0,9}}answer\s{{0,9}}>",
    re.IGNORECASE,
)
_NAMES = (*SMALL, "twenty")
_NAMED = re.compile(rf"\b({'|'.join(_NAMES)})\b", re.IGNORECASE)


def spatial_number(answer: str) -> float | None:
    """Return the number that an answer ends in, including words up to twenty, or None (`can_match_na`)."""
    values = literal_list(answer)
    text = _INVISIBLE.sub("", (str(values[0]) if values else answer).strip())
    text = _NAMED.sub(lambda name: str(_NAMES.index(name[1].lower())), text)
    tagged = _TAGGED_NUMBER.search(text)
    if tagged:
        return float(tagged[1])
    numbers = _NUMBER.findall(after_thinking(text)) or _NUMBER.findall(text)
    return float(numbers[-1]) if numbers else None


def mean_relative_accuracy(found: float, answer: float) -> float:
    """Return the share of the tolerances 50 %, 45 %, ..., 5 % within which a number is correct (VSI-Bench)."""
    error = abs(found - answer) / abs(answer) if answer else abs(found - answer)
    return float(np.mean(error <= 1 - np.linspace(0.5, 0.95, 10)))


# Answer readers of "VLMs are blind": in braces or anywhere in the text, depending on the row's task.

_BRACES = re.compile(r"\{([^{}\n]{0,999})\}")
_ROWS, _COLUMNS = (re.compile(rf"{word}s?[^{{}}]{{0,999}}\{{(\d{{1,9}})\}}") for word in ("[Rr]ow", "[Cc]olumn"))
_PAIR = re.compile(r"\((\d{1,9}),\s{0,9}(\d{1,9})\)")


def vlmblind(text: str, _options: Mapping[str, str], row: Row) -> str | None:
    """Extract the answer by the rule of the row's task; None for an unknown task."""
    answer = as_text(row.get("answer"))
    found: str | None = None
    match as_text(row.get("task")) if answer else "":
        case "Subway Connections" | "Nested Squares" | "Line Plot Intersections" | "Circled Letter":
            found = braces[1] if (braces := _BRACES.search(text)) else None
        case "Touching Circles":
            found = answer if answer.lower() in text.lower() else text
        case "Counting Grid - Word Grids" | "Counting Grid - Blank Grids":
            # "4,5" for "rows {4} columns {5}" or "(4, 5)", spelled like the answer if it is equal.
            rows, columns, pair = _ROWS.search(text), _COLUMNS.search(text), _PAIR.search(text)
            said = [rows[1], columns[1]] if rows and columns else list(pair.groups()) if pair else []
            wanted = [part.strip() for part in answer.split(",")]
            same = all(map(str.isdecimal, wanted)) and list(map(int, wanted)) == list(map(int, said))
            found = answer if same else ",".join(said)
        case "Olympic Counting - Pentagons" | "Olympic Counting - Circles":
            found = answer if answer in text else text
    return found or None
