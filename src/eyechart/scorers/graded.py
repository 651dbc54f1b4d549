"""Open answers that a judge grades from 0 to 1: MM-Vet, CORE-MM."""

from collections.abc import Iterable, Mapping
from functools import partial

from eyechart.metrics.cells import Row, as_text
from eyechart.scorers.scorer import UNDECIDED, Score, Scorer
from eyechart.scorers.tables import Rows, grouped, mean, need, percentages

MMVET_CAPABILITIES = ("rec", "ocr", "know", "gen", "spat", "math")


def mmvet(rows: Iterable[Row]) -> dict[str, dict[str, list[float]]]:
    """Return MM-Vet's [number of rows, mean score] per capability (`score`) and per combination of them (`fine`).

    A question of one capability counts once for it (VLMEvalKit counts it twice).
    """
    graded = need(rows, "category")
    abilities = {
        name: [row for row in graded if name in as_text(row["category"]).split(",")] for name in MMVET_CAPABILITIES
    }
    combined = grouped(graded, lambda row: as_text(row["category"]).replace(",", "_"))
    return {
        "score": _mmvet_lines({**abilities, "Overall": graded}),
        "fine": _mmvet_lines({**combined, "Overall": graded}),
    }


def _mmvet_lines(groups: Mapping[str, Rows]) -> dict[str, list[float]]:
    return {name: [len(rows), 100 * mean(rows)] for name, rows in groups.items() if rows}


class GradedScorer(Scorer):
    """Open questions that a judge grades."""

    form = "grade"
    binary = False

    def score(self, row: Row, answer: object) -> Score:
        """Leave everything to the judge."""
        return Score(as_text(answer), UNDECIDED, 0.0)


GRADED = partial(GradedScorer, arrange=percentages)
MMVET = partial(GradedScorer, arrange=mmvet)
