"""NaturalBench: two questions on two images, each question true of one of them."""

import re
from collections.abc import Iterable, Mapping
from functools import partial
from statistics import fmean

from eyechart.metrics.cells import Row, as_text
from eyechart.scorers.scorer import UNDECIDED, Score, Scorer, pick
from eyechart.scorers.tables import Rows, together

CELLS = ("q0_i0", "q0_i1", "q1_i0", "q1_i1")
"""The four rows of a group, in order of their index."""
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
        raise ValueError("there are no groups to score")
    return {
        "Q_Acc": fmean(cells[f"q{q}_i0"] and cells[f"q{q}_i1"] for cells in right for q in (0, 1)),
        "I_Acc": fmean(cells[f"q0_i{i}"] and cells[f"q1_i{i}"] for cells in right for i in (0, 1)),
        "Acc": fmean(value for cells in right for value in cells.values()),
        "G_Acc": fmean(all(cells.values()) for cells in right),
    }


def of_rows(rows: Rows) -> dict[str, float]:
    """Return the four accuracies of rows with what was `extracted`; four rows in a row make a group."""
    said = ([int(as_text(row["extracted"])) for row in group] for group in together(rows, len(CELLS)))
    return naturalbench(dict(zip(CELLS, group, strict=True)) for group in said)


class NaturalbenchScorer(Scorer):
    """NaturalBench: a question, an image and a group count if right throughout."""

    def score(self, row: Row, answer: object) -> Score:
        """Read which of the two words comes first; the row's ``type`` says which words."""
        kind = as_text(row.get("type")) or "yes_no"
        if kind not in NATURALBENCH_WORDS:
            raise ValueError(f"{kind!r} is not a type of NaturalBench: expected {', '.join(NATURALBENCH_WORDS)}")
        found = naturalbench_answer(answer, kind)
        rule = UNDECIDED if found < 0 else "first word"
        return Score(str(found), rule, float(found == naturalbench_answer(row.get("answer"), kind)))

    def assume(self, row: Row, rule: str, *, right: bool = False) -> Score:
        """Assume the right word, or none."""
        kind = as_text(row.get("type")) or "yes_no"
        return Score(str(naturalbench_answer(row.get("answer"), kind)) if right else "-1", rule, float(right))

    def chance(self, rows: Rows) -> float | None:
        """Return one half."""
        return 0.5


NATURALBENCH = partial(NaturalbenchScorer, arrange=of_rows, numbers=pick("Q_Acc", "I_Acc", "G_Acc"))
