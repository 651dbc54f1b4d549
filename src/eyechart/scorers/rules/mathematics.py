# ruff: noqa: RUF001 - Chinese punctuation
"""Answers to exercises, exams and mathematics problems, compared by value."""

import contextlib
import json
import math
import re
from collections.abc import Callable
from typing import Any

from eyechart.metrics.cell_values import LETTERS, Row, as_text, text_list
from eyechart.metrics.choices import extract_vlmeval, without_marks
from eyechart.metrics.math_answers import math_close, math_equal, math_value
from eyechart.metrics.math_expressions import boxed, plain_expression
from eyechart.scorers.rule import DIFFERENT, JUDGE, NO_ANSWER, UNDECIDED, BoundRule, RuleResult, rule


def _formulas(text: str) -> str:
    return ", ".join(boxed(text)) or ", ".join(re.findall(r"\$(.+?)\$", text.strip().split("\n")[-1])) or text


def solution(row: Row, text: str) -> RuleResult:
    """Compare the boxed text, else the formula between dollars in the last line, else the whole text."""
    said = re.sub(r"\s*c?m(?:\^\{?2\}?)?$", "", _formulas(text).strip())
    return RuleResult(said, float(bool(said) and math_equal(said, row["answer"])))


def boxed_answer(row: Row, text: str) -> RuleResult:
    """Compare the boxed text: the letters of a choice (``task_type`` mc), or a value."""
    inside, wanted = boxed(text), text_list(row["answer"])
    if as_text(row.get("task_type")) == "mc":
        letters = [letter for letter in (inside[0] if inside else "") if letter.isupper()]
        return RuleResult("".join(letters), float(len(letters) == len(wanted) and {*letters} == {*wanted}))
    said = inside[-1] if inside else ""
    return RuleResult(said, float(bool(inside) and math_equal(said, next(iter(wanted), ""))))


def short_answer(row: Row, text: str) -> RuleResult:
    """Compare the JSON field "short answer", or the whole text, by the row's ``answer_type`` (DynaMath)."""
    body = text[text.find("{") : text.rfind("}") + 1] if 0 <= text.find("{") < text.rfind("}") else text
    kind, target = as_text(row["answer_type"]), as_text(row["answer"])
    fields: object = None
    with contextlib.suppress(ValueError, RecursionError):
        fields = json.loads(body.replace("\\", ""), strict=False)
    value = fields.get("short answer") if isinstance(fields, dict) else None
    for said in (body,) if value is None else (str(value), body):
        found = _compare_typed(said, kind, target)
        if found is not None:
            return found
    return RuleResult(None, float(kind == "multiple choice" and target in body[:3].upper()))


def _compare_typed(text: str, kind: str, target: str) -> RuleResult | None:
    """Compare a text of the given type; None if it is of another."""
    if kind == "float":
        first = text.split(" ", maxsplit=1)[0]
        try:
            number = float(first.split("π")[0]) * (math.pi if "π" in first else 1)
        except ValueError:
            return None
        return RuleResult(str(number), float(abs(number - float(target)) <= 0.001))
    if kind == "multiple choice":
        letters = [text.upper()] if len(text) == 1 else [letter for letter in "ABCDE" if letter in text.upper()]
        return RuleResult(letters[0], float(letters[0] == target)) if len(letters) == 1 else None
    return RuleResult(text, float(bool(text.strip()) and text.lower() in target.lower()))


_STATED = re.compile(
    r"\b(?:final\s+answer|correct\s+answer)\b[^:：]*[:：]\s*(.*?)(?=\n\n\n|\Z)", re.IGNORECASE | re.DOTALL
)
_LETTER = re.compile(r"\b(?:correct|answer|option|Answer|Option|Correct)\b[\s\S]*?([A-D])")


def stated_value(row: Row, text: str) -> RuleResult:
    """Search the text for the right answer, or compare the boxed or stated final answer (PhyX)."""
    target, said = as_text(row["answer"]).strip(), text.strip()
    found = next(iter(boxed(said)), None)
    stated = _STATED.search(said) if found is None else None
    extracted = found if found is not None else stated[1] if stated else said
    right = bool(said) and (target in said or math_equal(extracted, target))
    return RuleResult(extracted, float(right))


def stated_letter(row: Row, text: str) -> RuleResult:
    """Take the letter after a word like answer or option, or before a colon (PhyX)."""
    target = as_text(row["answer"]).strip()
    found = _LETTER.search(text)
    said = found[1] if found else next(reversed(re.findall(r"([ABCD]):", text)), None)
    marked = any(form in text for form in (f"{target}:", f"{target}**", f"**{target}"))
    return RuleResult(said, float(said == target or marked))


def competition(row: Row, text: str) -> RuleResult:
    """Compare the final answer of a competition problem, within the row's tolerance (OlympiadBench)."""
    words = "所以最终答案是(.*)" if "zh" in as_text(row.get("source")) else "So the final answer is (.*)"
    stated = re.findall(words, text)
    said = _formulas(stated[-1].strip() if stated else text)
    target = as_text(row["final_answer"]).removeprefix("['").removesuffix("']")
    error = as_text(row.get("error")).split(",")[0]
    tolerance = float(error) * 1.01 if error else 0.0
    return RuleResult(said, float(bool(said) and math_close(said, target, tolerance)))


def points(row: Row, text: str) -> RuleResult:
    """Give the points of each part whose final boxes contain the right value (HiPhO, its coarse score)."""
    targets = text_list(row["answer"])
    worth = [float(number) for number in text_list(row.get("points"))]
    worth = worth if len(worth) == len(targets) else [1.0] * len(targets)
    boxes = boxed(text)[-len(targets) :]
    boxes = [""] * (len(targets) - len(boxes)) + boxes
    hits = [bool(said) and _same_value(said, target) for said, target in zip(boxes, targets, strict=True)]
    got = sum(part for part, hit in zip(worth, hits, strict=True) if hit)
    return RuleResult(str(boxes), got / sum(worth) if sum(worth) else 0.0, facts={"points_all": sum(worth)})


def _same_value(said: str, target: str) -> bool:
    """Compare values with a tolerance of two per mille, for rounding in physics; an interval contains its numbers."""
    if math_equal(said, target):
        return True
    try:
        number, wanted = math_value(said), math_value(target)
        return abs(complex(number) - complex(wanted)) <= 2e-3 * abs(complex(wanted))
    except (ValueError, OverflowError, ZeroDivisionError):
        return False


def mathematics(row: Row, text: str) -> RuleResult:
    """Compare the boxed or whole text with one of the answers, by value."""
    said = next(reversed(boxed(text)), text).strip()
    right = bool(said) and any(math_equal(said, target) for target in text_list(row["answer"]))
    return RuleResult(said, float(right))


_FINAL = re.compile(
    r"(?:final\s+answer|answer\s+is|result\s+is|####|答案)\s*[:\-=]?\s*\$?\s*(-?[\d,]+(?:\.\d+)?(?:/\d+)?)",
    re.IGNORECASE,
)
_ANY = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:/\d+)?")


def final_number(row: Row, text: str) -> RuleResult:
    """Compare the number after "final answer" or similar, else the boxed one, else the last one (GSM8K-V)."""
    stated = _FINAL.findall(text) or boxed(text) or _ANY.findall(text)
    said = stated[-1].rstrip(",") if stated else None
    return RuleResult(said, float(said is not None and math_close(said, row["answer"], 1e-3)))


_POSITIVE = ("正确", "对", "准确", "肯定", "对的")
_NEGATIVE = ("不对", "错误", "不正确", "不准确", "不合适", "否定", "错的", "错")
_AMBIGUOUS = ("对错", "是否正确", "否正确", "或者", "是否", "正确性", "对不")
_STATEMENT_SIGNS = ("是", "为", "所以", "判断", "陈述", "说法", "表达", "答案", "结果")
_BLANK_SIGNS = ("是", "为", "所以", "等于", "方案", "选择", "正确答案", "因此", "最后", "答案", "结果")
_NUMBERS = (
    r"-?\d{1,3}(?:，\d{3})+",
    r"-?\d+(?:\.\d+)?[eE][+-]?\d+",
    r"-?(?:\d+\.\d+|\.\d+|\d+)(?![eE][+-]?\d+)(?!，\d)",
)


def chinese_exam(row: Row, text: str) -> RuleResult:
    """Read and compare an answer by the row's ``type``.

    Unreadable answers are wrong (VLMEvalKit guesses), a blank counts once, and 不对 means no.
    """
    return {"选择": _choice, "判断": _statement}.get(as_text(row["type"]), _blank)(row, text)


def _choice(row: Row, text: str) -> RuleResult:
    options = {letter: as_text(row.get(f"option{i}")) for i, letter in enumerate("ABCD", 1)}
    said = without_marks(text)
    counts = {letter: said.count(f"({letter})") for letter in options}
    if not any(counts.values()):
        counts = {letter: said.count(letter) for letter in options}
    if not any(counts.values()):
        counts = {letter: said.count(words) if words else 0 for letter, words in options.items()}
    most = max(counts.values())
    read = "".join(letter for letter, count in counts.items() if count == most) if most else ""
    return RuleResult(read or None, float(read == as_text(row["answer"])))


def _statement(row: Row, text: str) -> RuleResult:
    parts = [part for part in _stated(text, _STATEMENT_SIGNS) if not any(word in part for word in _AMBIGUOUS)]
    denied = [any(word in part for word in _NEGATIVE) for part in parts]  # 不对 contains 对
    said = [any(word in part for word in _POSITIVE) for part in parts]
    no, yes = sum(denied), sum(a and not b for a, b in zip(said, denied, strict=True))
    read = "对" if yes > no else "错" if no > yes else None
    return RuleResult(read, float(read == as_text(row["answer"])))


def _blank(row: Row, text: str) -> RuleResult:
    target = as_text(row["answer"])
    wanted = _plain(target, target)
    parts = _stated(text, _BLANK_SIGNS, last="=")
    found = [*parts, *(number for part in parts for pattern in _NUMBERS for number in re.findall(pattern, part))]
    said = [value for part in found if (value := _plain(part, target)) is not None]
    if isinstance(wanted, float):
        right = wanted in said
    else:
        right = any(isinstance(value, str) and bool(wanted) and str(wanted) in value for value in said)
    return RuleResult("; ".join(map(str, said)), float(right))


def _plain(text: str, target: str) -> float | str | None:
    """Return a number rounded to two digits, or a text unless it is much longer than the answer."""
    try:
        return round(float(text.strip().replace(",", "")), 2)
    except ValueError:
        pass
    said = text.strip()
    letters, wanted = (sum(c.isascii() and c.isalpha() for c in part) for part in (said, target))
    return None if len(said) > len(target) + 20 or letters > wanted + 2 else said


def _stated(text: str, signs: tuple[str, ...], last: str = "") -> list[str]:
    """Return the text after the last of some words in each sentence; the whole text if none contains one."""
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


PREFETCHED = "Prefetch succeed"
"""The `log` of a row whose answer was read by rule, without a judge."""
LONGEST_VALUE = 3
"""Word limit of a bare value; a longer answer is a solution from which nothing was extracted."""
_BARE = re.compile(r"[-+]?\d+(?:\.\d*)?")


def _choices(row: Row) -> dict[str, object]:
    return dict(zip(LETTERS, text_list(row.get("choices")), strict=False))


def mathvista_read(row: Row, column: str = "prediction") -> str | float | None:
    """Read a MathVista answer by rule: an option's letter (right or wrong), or the target's value if equal to it.

    None leaves it to a judge. `column` is "prediction" before judging and "res" after it.
    """
    response = row.get(column)
    if as_text(row.get("question_type")) == "multi_choice":
        return _option(response, _choices(row))
    kind = as_text(row.get("answer_type"))
    with contextlib.suppress(ValueError):
        value = _value(response, kind)
        if value == _value(row.get("answer"), kind):
            return value
    # A bare number of the other type, 14.0 for 14, is left to the judge, as VLMEvalKit does.
    written = not _BARE.fullmatch(as_text(response).strip())
    return as_text(row.get("answer")) if written and math_equal(response, row.get("answer")) else None


def _value(value: object, kind: str) -> str | float:
    match kind:
        case "integer":  # spreadsheets store 14 as 14.0
            return int(value) if isinstance(value, float) and value.is_integer() else int(as_text(value))
        case "float":
            return float(as_text(value))
        case _:
            return ", ".join(" ".join(text.split()) for text in text_list(value))


def mathvista_hit(row: Row) -> bool:
    """Whether the extracted answer `res` is right.

    Texts and lists are compared as texts; VLMEvalKit compares the word None instead, so they never match there.
    """
    found = mathvista_read(row, "res")
    if as_text(row.get("question_type")) == "multi_choice":
        return found == as_text(row.get("answer_option"))
    return found is not None


def mathvision_read(row: Row, column: str = "prediction") -> str | None:
    """Read a MathVision answer by rule: an option's letter (right or wrong), or the answer if it equals the target."""
    choices, response = _choices(row), row.get(column)
    if choices:
        return _option(response, choices)
    return as_text(response) if math_equal(response, row.get("answer")) else None


def _option(response: object, choices: dict[str, object]) -> str | None:
    r"""Read an option's letter, also from the last box: ``\boxed{\text{B}}``."""
    found = extract_vlmeval(response, choices).choice
    if not found and (box := boxed(as_text(response))):
        found = extract_vlmeval(plain_expression(box[-1]).upper(), choices).choice
    return found


def mathvision_hit(row: Row) -> bool:
    """Whether the extracted answer `res` is right."""
    found = mathvision_read(row, "res")
    return found is not None and math_equal(found, row.get("answer"))


def _by_value(right: Callable[[Row], bool], row: Row, text: str, found: str | float | None) -> RuleResult:
    """Compare the extracted answer; a short one that is not literally right is left to the judge, like none."""
    if found is not None:
        return RuleResult(as_text(found), float(right({**row, "res": as_text(found)})), rule=PREFETCHED)
    value = text.strip()
    if value and not _choices(row) and len(value.split()) <= LONGEST_VALUE:
        return RuleResult(value, 0.0, rule=DIFFERENT)
    return RuleResult(None, 0.0, rule=UNDECIDED)


def _math_hooks(right: Callable[[Row], bool]) -> dict[str, Any]:
    def judged(bound: BoundRule, row: Row, verdict: str) -> RuleResult:
        """Compare the answer extracted by a judge; `NO_ANSWER` is wrong, whatever options it resembles."""
        return RuleResult(verdict, float(verdict != NO_ANSWER and right({**row, "res": verdict})), rule=JUDGE)

    def columns(result: RuleResult) -> dict[str, object]:
        return {"res": result.extracted or "", "log": result.rule, "score": result.score}

    return {"judged": judged, "columns": columns, "judge_form": "extract", "binary": True}


@rule(**_math_hooks(mathvista_hit))
def mathvista(row: Row, text: str) -> RuleResult:
    """Extract an option's letter or the right value (MathVista)."""
    return _by_value(mathvista_hit, row, text, mathvista_read({**row, "prediction": text}))


@rule(**_math_hooks(mathvision_hit))
def mathvision(row: Row, text: str) -> RuleResult:
    """Extract an option's letter or the right value (MathVision)."""
    return _by_value(mathvision_hit, row, text, mathvision_read({**row, "prediction": text}))
