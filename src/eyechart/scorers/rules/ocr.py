"""OCRBench v2: thirty task types with a rule each."""

from __future__ import annotations

import re
from collections.abc import Callable

from eyechart.metrics.answers import likeness
from eyechart.metrics.cell_values import Row, as_text, read_literal
from eyechart.metrics.long_texts import word_scores
from eyechart.metrics.structures import outline_similarity
from eyechart.scorers.rule import RuleResult
from eyechart.scorers.rules.layouts import (
    chart_table,
    fields_found,
    html_table,
    markdown_table,
    read_box,
    read_fields,
    shared,
    spotted,
    whole_numbers,
)

_TEXT_TAG = re.compile(r"\\text\{([^{}]*)\}")
_JOINTS = ("", ".", ". ", ",", ", ", "、", ";", "; ", " ", "和")


def ocr_task(row: Row, text: str) -> RuleResult:
    """Compare by the row's ``category``, and by its ``eval`` if set."""
    category = as_text(row["category"])
    if category not in _TASKS:
        raise ValueError(f"{category!r} is not a task of OCRBench v2")
    answers = read_literal(as_text(row["answer"]))
    if not answers:
        raise ValueError(f"the answer of index {row['index']} is not a list")
    score = _TASKS[category](row, text, answers if isinstance(answers, list) else [answers])
    return score if isinstance(score, RuleResult) else RuleResult(text, float(score))


def _answered(row: Row, text: str, answers: list[object]) -> float:
    how = _eval(row)
    if how == "multiple choice":
        return float("".join(letter for letter in text if letter.isalpha()) == str(answers[0]))
    if how not in {"", "case sensitive"}:
        raise ValueError(f"{how!r} is not a way to compare")
    if how:
        return phrased(text, answers, str.strip)
    if as_text(row["category"]).endswith(" cn"):
        return phrased(text, answers, lambda part: _low(part).replace(" ", ""), ",", 4)
    return phrased(text, answers, _low)


def phrased(
    text: str, answers: list[object], plain: Callable[[str], str], cut: str | None = None, few: int = 5
) -> float:
    """Search the text for short answers; answers of at least so many words may differ in half of their letters."""
    said, score = plain(text.replace("\n", " ")), 0.0
    for answer in answers:
        wanted = plain(str(answer).replace("\n", " "))
        if len(wanted.split(cut)) < few:
            score = max(score, float(wanted in said))
        else:
            near = likeness(said, wanted)
            score = max(score, near if near >= 0.5 else 0.0)
    return score


def _eval(row: Row) -> str:
    how = as_text(row.get("eval"))
    return "" if how == "without eval" else how


def _counted(row: Row, text: str, answers: list[object]) -> float:
    if _eval(row) == "exact match":
        return float(any(str(answer).lower().strip() in text for answer in answers))
    if _eval(row) != "regression":
        raise ValueError(f"{_eval(row)!r} is not a way to compare counts")
    found = re.search(r"\d+", text)
    said = int(found[0][:12]) if found else 0
    near = [1 - abs(said - int(str(answer))) / int(str(answer)) for answer in answers if int(str(answer))]
    return max((value for value in near if said and value > 0.5), default=0.0)


def _formula(row: Row, text: str, answers: list[object]) -> float:
    chinese = as_text(row["category"]).endswith(" cn")
    said, *wanted = (
        re.sub(r"[\n ]", "", (_TEXT_TAG.sub(r"\1", part) if chinese else part).strip())
        for part in (text, *map(str, answers))
    )
    return float(any(answer in said for answer in wanted))


def _page(text: str, answers: list[object]) -> RuleResult:
    """Average BLEU, METEOR, the F score of words and the edit similarity."""
    if not text:
        return RuleResult(text, 0.0)
    wanted = str(answers[0])
    if not wanted:
        return RuleResult(text, None)
    scores, needs = word_scores(text, wanted)
    if needs:
        return RuleResult(text, None, facts={"needs": needs})
    return RuleResult(text, sum(scores[name] for name in ("bleu", "meteor", "f_measure", "near")) / 4)


def _extracted(row: Row, text: str, answers: list[object]) -> float | RuleResult:
    if "简答" in as_text(row["question"]):
        return _page(text, answers)
    return float(any(joint.join(str(answers[0])) in text for joint in _JOINTS))


def _table(row: Row, text: str, answers: list[object]) -> float:
    question = as_text(row["question"]).lower()
    if "html" in question or as_text(row["category"]).endswith(" cn"):
        return html_table(text, str(answers[0]))
    if "markdown" in question:
        return markdown_table(text, str(answers[0]))
    raise ValueError(f"the question of index {row['index']} names neither HTML nor Markdown")


def _located(row: Row, text: str, answers: list[object]) -> float:
    """Average the answer's score and the IoU of its box."""
    said = read_fields(text)
    right = phrased(said["answer"], answers, _low) if "answer" in said else 0.0
    boxes = read_literal(said.get("bbox", "")), read_literal(as_text(row["bbox"]))
    return (right + shared(*map(whole_numbers, boxes))) / 2


def _low(text: str) -> str:
    return text.lower().strip()


_Task = Callable[[Row, str, list[object]], float | RuleResult]
_RULES: tuple[tuple[_Task, tuple[str, ...]], ...] = (
    (
        _answered,
        (
            "APP agent en",
            "ASCII art classification en",
            "math QA en",
            "reasoning VQA en",
            "science QA en",
            "text recognition en",
            "document classification en",
            "cognition VQA en",
            "diagram QA en",
            "cognition VQA cn",
            "reasoning VQA cn",
        ),
    ),
    (_extracted, ("handwritten answer extraction cn",)),
    (_formula, ("formula recognition cn", "formula recognition en")),
    (_counted, ("text counting en",)),
    (_table, ("table parsing en", "table parsing cn")),
    (lambda _, text, answers: chart_table(text, answers[0]), ("chart parsing en",)),
    (
        lambda _, text, answers: outline_similarity(text, str(answers[0])),
        ("document parsing en", "document parsing cn"),
    ),
    (
        lambda _, text, answers: fields_found(text, answers[0]),
        ("key information extraction en", "key information mapping en", "key information extraction cn"),
    ),
    (_located, ("VQA with position en",)),
    (
        lambda _, text, answers: _page(text, answers),
        ("text translation cn", "fine-grained text recognition en", "full-page OCR en", "full-page OCR cn"),
    ),
    (lambda _, text, answers: read_box(text, answers), ("text grounding en",)),
    (lambda row, text, _: spotted(row, text), ("text spotting en",)),
)
_TASKS: dict[str, _Task] = {name: rule for rule, names in _RULES for name in names}
