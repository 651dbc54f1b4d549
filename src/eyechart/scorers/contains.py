"""Answers that are looked for in what the model writes: OCRBench and MTVQA. Percentages and counts."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from eyechart.metrics.cells import Row, as_text, text_list
from eyechart.scorers.scorer import UNDECIDED, Score, Scorer, pick
from eyechart.scorers.tables import by_column, mean, need

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


def ocrbench_hit(row: Row) -> bool:
    """Tell whether a prediction holds one of the answers: formulas without any space, other text without capitals."""
    prediction, answers = as_text(row.get("prediction")), text_list(row["answer"])
    clean = _formula if as_text(row.get("category")) == OCRBENCH_FORMULAS else _line
    return any(_holds(clean(prediction), clean(answer)) for answer in answers)


def _holds(prediction: str, answer: str) -> bool:
    """Look for an answer; one of which nothing is left is nowhere, not everywhere."""
    return bool(answer) and answer in prediction


def _formula(text: str) -> str:
    return text.strip().replace("\n", " ").replace(" ", "")


def _line(text: str) -> str:
    return text.lower().strip().replace("\n", " ")


def ocrbench(rows: Iterable[Row]) -> dict[str, float]:
    """Return OCRBench's counts of hits in its five groups, their sum `Final Score` and a tenth of it, `... Norm`."""
    counts = dict.fromkeys(OCRBENCH_GROUPS.values(), 0)
    for row in need(rows, "category"):
        category = as_text(row["category"])
        if category not in OCRBENCH_GROUPS:
            raise ValueError(f"{category!r} is not a category of OCRBench: expected {', '.join(OCRBENCH_GROUPS)}")
        counts[OCRBENCH_GROUPS[category]] += bool(row["score"])
    total = sum(counts.values())
    return counts | {"Final Score": total, "Final Score Norm": total / 10}


def mtvqa_hit(row: Row) -> bool:
    """Tell whether a prediction holds the answer, both without capitals and dots."""
    return _holds(_undotted(row.get("prediction")), _undotted(row["answer"]))


def _undotted(value: object) -> str:
    return as_text(value).strip().lower().replace(".", "")


def mtvqa(rows: Iterable[Row]) -> dict[str, float]:
    """Return MTVQA's accuracy per language (`category`) and over all questions (`Average`)."""
    found = need(rows, "category")
    groups = {name: 100 * mean(members) for name, members in by_column(found, "category")}
    return groups | {"Average": 100 * mean(found)}


@dataclass(frozen=True)
class ContainsScorer(Scorer):
    """Looks for the answer in what the model writes."""

    hit: Callable[[Row], bool] = ocrbench_hit

    def score(self, row: Row, answer: object) -> Score:
        """Look for the answer."""
        rule = "contains" if as_text(answer).strip() else UNDECIDED
        return Score(as_text(answer), rule, float(self.hit({**row, "prediction": answer})))


OCRBENCH = partial(ContainsScorer, hit=ocrbench_hit, arrange=ocrbench, numbers=pick("Final Score"), points=True)
MTVQA = partial(ContainsScorer, hit=mtvqa_hit, arrange=mtvqa, numbers=pick("Average"), points=True)
