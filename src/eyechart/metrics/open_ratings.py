"""Ratings of open-question benchmarks: DocVQA, TextVQA, ChartQA and the like, OCRBench, MTVQA, NaturalBench.

A row has the columns of its TSV file (`answer` may be a list or its literal) and a `prediction`. Percentages.
"""

import re
from collections.abc import Iterable, Mapping
from statistics import fmean

from eyechart.metrics.cells import Row, as_text, is_missing, text_list
from eyechart.metrics.open_answers import open_score
from eyechart.metrics.tables import by_column, mean, need

OCRBENCH_FORMULAS = "Handwritten Mathematical Expression Recognition"
OCRBENCH_GROUPS = {
    "Regular Text Recognition": "Text Recognition",
    "Irregular Text Recognition": "Text Recognition",
    "Artistic Text Recognition": "Text Recognition",
    "Handwriting Recognition": "Text Recognition",
    "Digit String Recognition": "Text Recognition",
    "Non-Semantic Text Recognition": "Text Recognition",
    "Scene Text-centric VQA": "Scene Text-centric VQA",
    "Doc-oriented VQA": "Doc-oriented VQA",
    "Key Information Extraction": "Key Information Extraction",
    OCRBENCH_FORMULAS: OCRBENCH_FORMULAS,
}


def vqa(rows: Iterable[Row], metric: str) -> dict[str, float]:
    """Rate open questions by a metric of `OPEN_METRICS`: per split and `Overall`, or `Overall` and per category."""
    found = need(rows, "answer")
    scored = [{**row, "score": open_score(row.get("prediction"), row["answer"], metric)} for row in found]
    column = "split" if any(not is_missing(row.get("split")) for row in found) else "category"
    groups = {name: 100 * mean(members) for name, members in by_column(scored, column)}
    return groups | {"Overall": 100 * mean(scored)}


def ocrbench_hit(row: Row) -> bool:
    """Tell whether a prediction holds one of the answers: formulas without any space, other text without capitals."""
    prediction, answers = as_text(row.get("prediction")), text_list(row["answer"])
    clean = _formula if as_text(row["category"]) == OCRBENCH_FORMULAS else _line
    return any(clean(answer) in clean(prediction) for answer in answers)


def _formula(text: str) -> str:
    return text.strip().replace("\n", " ").replace(" ", "")


def _line(text: str) -> str:
    return text.lower().strip().replace("\n", " ")


def ocrbench(rows: Iterable[Row]) -> dict[str, float]:
    """Return OCRBench's counts of hits in its five groups, their sum `Final Score` and a tenth of it, `... Norm`."""
    counts = dict.fromkeys(OCRBENCH_GROUPS.values(), 0)
    for row in need(rows, "category", "answer"):
        category = as_text(row["category"])
        if category not in OCRBENCH_GROUPS:
            raise ValueError(f"{category!r} is not a category of OCRBench: expected {', '.join(OCRBENCH_GROUPS)}")
        counts[OCRBENCH_GROUPS[category]] += ocrbench_hit(row)
    total = sum(counts.values())
    return counts | {"Final Score": total, "Final Score Norm": total / 10}


def mtvqa_hit(row: Row) -> bool:
    """Tell whether a prediction holds the answer, both without capitals and dots."""
    return _undotted(row["answer"]) in _undotted(row.get("prediction"))


def _undotted(value: object) -> str:
    return as_text(value).strip().lower().replace(".", "")


def mtvqa(rows: Iterable[Row]) -> dict[str, float]:
    """Return MTVQA's accuracy per language (`category`) and over all questions (`Average`)."""
    scored = [{**row, "score": mtvqa_hit(row)} for row in need(rows, "category", "answer")]
    groups = {name: 100 * mean(members) for name, members in by_column(scored, "category")}
    return groups | {"Average": 100 * mean(scored)}


NATURALBENCH_WORDS = {
    "yes_no": re.compile(r"\b(?:(yes)|no)\b", re.IGNORECASE),
    "multiple_choice": re.compile(r"\b(?:(A)|B)\b", re.IGNORECASE),
}


def naturalbench_answer(text: object, kind: str = "yes_no") -> int:
    """Return 1 when yes (or A) comes first, 0 when no (or B) does, -1 when neither word occurs."""
    first = NATURALBENCH_WORDS[kind].search(as_text(text))
    return -1 if first is None else int(first[1] is not None)


def naturalbench(groups: Iterable[Mapping[str, int]]) -> dict[str, float]:
    """Return NaturalBench's Q_Acc, I_Acc, Acc and G_Acc as fractions.

    Each group holds what `naturalbench_answer` read for two questions on two images, under q0_i0, q0_i1,
    q1_i0 and q1_i1; question 0 is true of image 0 only, question 1 of image 1 only. A question counts when
    right on both images, an image when both questions on it are right, a group when all four are.
    """
    truth = {"q0_i0": 1, "q0_i1": 0, "q1_i0": 0, "q1_i1": 1}
    right = [{cell: group[cell] == wanted for cell, wanted in truth.items()} for group in groups]
    if not right:
        raise ValueError("there are no groups to rate")
    return {
        "Q_Acc": fmean(cells[f"q{q}_i0"] and cells[f"q{q}_i1"] for cells in right for q in (0, 1)),
        "I_Acc": fmean(cells[f"q0_i{i}"] and cells[f"q1_i{i}"] for cells in right for i in (0, 1)),
        "Acc": fmean(value for cells in right for value in cells.values()),
        "G_Acc": fmean(all(cells.values()) for cells in right),
    }
