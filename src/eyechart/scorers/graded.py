"""Open answers that a judge grades from 0 to 1: MM-Vet, CORE-MM.

An answer that could not be graded is left out and counted, never taken for 0.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import ClassVar

from eyechart.metrics.cells import Row, as_text
from eyechart.scorers.judges import GradeForm, JudgeForm
from eyechart.scorers.scorer import UNDECIDED, Score, Scorer
from eyechart.scorers.tables import Rows, grouped, mean, need, percentages, scored

MMVET_CAPABILITIES = ("rec", "ocr", "know", "gen", "spat", "math")


def mmvet(rows: Iterable[Row]) -> dict[str, dict[str, list[float]]]:
    """Return MM-Vet's [number of rows, mean score] per capability (`score`) and per combination of them (`fine`).

    A row without a score is left out and counted under `unscored`. A question of one capability counts once
    for it (VLMEvalKit counts it twice).
    """
    found = need(rows, "category")
    graded = scored(found)
    abilities = {
        name: [row for row in graded if name in as_text(row["category"]).split(",")] for name in MMVET_CAPABILITIES
    }
    combined = grouped(graded, lambda row: as_text(row["category"]).replace(",", "_"))
    lost = len(found) - len(graded)
    return {
        "score": _mmvet_lines({**abilities, "Overall": graded}, lost),
        "fine": _mmvet_lines({**combined, "Overall": graded}, lost),
    }


def _mmvet_lines(groups: Mapping[str, Rows], lost: int) -> dict[str, list[float]]:
    lines: dict[str, list[float]] = {name: [len(rows), 100 * mean(rows)] for name, rows in groups.items() if rows}
    return lines | ({"unscored": [lost]} if lost else {})


class GradedScorer(Scorer):
    """Open questions that a judge grades."""

    form: ClassVar[JudgeForm | None] = GradeForm()
    binary = False

    def score(self, row: Row, answer: object) -> Score:
        """Leave everything to the judge."""
        return Score(as_text(answer), UNDECIDED, None)


GRADED = partial(GradedScorer, arrange=percentages)
MMVET = partial(GradedScorer, arrange=mmvet, keeps_unscored=True)
