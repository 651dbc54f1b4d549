"""Answers whose instruction has several components, each graded by a judge: MIA-Bench."""

from collections.abc import Iterable, Sequence
from functools import partial
from statistics import fmean
from typing import cast

from eyechart.metrics.cells import Row, as_text, text_list
from eyechart.scorers.graded import GradedScorer
from eyechart.scorers.judging.replies import highest_marks
from eyechart.scorers.scorer import JUDGE, Score
from eyechart.scorers.tables import Table, mean, need

TOTAL = "total_score"


def components(rows: Iterable[Row]) -> Table:
    """Return the mean share of the marks: of each type of component, and of whole instructions (`total_score`).

    Two components of one type in an instruction both count (VLMEvalKit keeps the last one).
    """
    found = need(rows, "component_type")
    shares: dict[str, list[float]] = {}
    for row in found:
        for name, share in zip(_types(row), cast("Sequence[float]", row["shares"]), strict=True):
            shares.setdefault(name, []).append(share)
    return {name: fmean(values) for name, values in shares.items()} | {TOTAL: mean(found)}


def _types(row: Row) -> list[str]:
    names, marks = text_list(row["component_type"]), highest_marks(row, "component_weight")
    if len(names) != len(marks):
        raise ValueError(f"index {row['index']} has {len(names)} types of components and {len(marks)} weights")
    return names


class ComponentScorer(GradedScorer):
    """Instructions of several components, each worth some marks."""

    form = "components"
    answer_column = "components"

    def judged(self, row: Row, verdict: Sequence[float]) -> Score:
        """Take the share of all marks as the score; the shares of the components go to the table."""
        highest = highest_marks(row, "component_weight")
        shares = [mark / most for mark, most in zip(verdict, highest, strict=True)]
        return Score(as_text(row.get("prediction")), JUDGE, sum(verdict) / sum(highest), {"shares": shares})

    def assume(self, row: Row, rule: str, *, right: bool = False) -> Score:
        """Assume no mark, or all of them."""
        shares = [float(right)] * len(highest_marks(row, "component_weight"))
        return Score(as_text(row.get("prediction")), rule, float(right), {"shares": shares})

    def score(self, row: Row, answer: object) -> Score:
        """Leave everything to the judge."""
        return self.assume(row, super().score(row, answer).rule)

    def columns(self, score: Score) -> dict[str, object]:
        """Give the shares of the components."""
        return {**(score.grades or {}), "score": score.correct}


COMPONENTS = partial(ComponentScorer, arrange=components)
