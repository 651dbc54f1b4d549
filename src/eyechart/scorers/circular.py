"""Circular multiple choice: a question counts only if every rotation of its options is answered right."""

import math
from collections.abc import Iterable, Sequence
from functools import partial
from statistics import fmean

from eyechart.metrics.cells import Row, options_of
from eyechart.metrics.circular import can_rotate, question_of, row_index
from eyechart.scorers.choice import ChoiceScorer
from eyechart.scorers.choices.accuracy import Table, report_acc
from eyechart.scorers.scorer import UNDECIDED, Score
from eyechart.scorers.tables import Rows, all_right, grouped, need
from eyechart.types import Notice


def mmbench(rows: Iterable[Row]) -> Table:
    """Return `report_acc` of the questions of MMBench, CCBench and other circular sets.

    Only the rows whose index is their group's are reported.
    """
    found = need(rows)
    groups = grouped(found, question_of)
    mains = {row_index(row): row for row in found}
    lost = sorted(groups.keys() - mains.keys())
    if lost:
        raise ValueError(f"{len(lost)} questions have rotations but no row of their own, the first is index {lost[0]}")
    hits = {group: all_right(members, "hit") for group, members in groups.items()}
    return report_acc([{**row, "hit": hits[index]} for index, row in mains.items() if index in hits])


class CircularScorer(ChoiceScorer):
    """Multiple choice with rotations."""

    def prepare(self, row: Row) -> list[dict[str, object]]:
        """Refuse an index that names no question."""
        question_of(row)
        return super().prepare(row)

    def worth_judging(self, rows: Rows, scores: Sequence[Score]) -> list[int]:
        """Leave out the rotations of questions that are lost already."""
        pairs = zip(rows, scores, strict=True)
        lost = {question_of(row) for row, score in pairs if score.rule != UNDECIDED and score.correct == 0}
        return [i for i in super().worth_judging(rows, scores) if question_of(rows[i]) not in lost]

    def units(self, rows: Rows, scores: Sequence[Score]) -> dict[str, float]:
        """Return one unit per question."""
        judged = [{**row, "hit": score.correct} for row, score in zip(rows, scores, strict=True)]
        return {str(group): all_right(members, "hit") for group, members in grouped(judged, question_of).items()}

    def notices(self, rows: Rows) -> list[Notice]:
        """Count the questions that are easier than they should be: not all rotations of their options are there."""
        groups = grouped(rows, question_of).values()
        count = sum(can_rotate(members[0]) and len(members) < len(options_of(members[0])) for members in groups)
        text = f"{count} questions lack rotations of their options (rows that are missing): they are easier."
        return [*super().notices(rows), *([Notice("missing_rotations", count, text)] if count else [])]

    def chance(self, rows: Rows) -> float | None:
        """Return the accuracy of guessing every rotation right."""
        groups = grouped(rows, question_of).values()
        return fmean(math.prod(1 / max(1, len(options_of(row))) for row in members) for members in groups)


CIRCULAR = partial(CircularScorer, arrange=mmbench)
