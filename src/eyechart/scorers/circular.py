"""Circular multiple choice: a question counts only if every rotation of its options is answered right."""

import math
from collections.abc import Iterable, Sequence
from functools import partial
from statistics import fmean
from typing import Any

from eyechart.metrics.cells import Row, as_text, options_of
from eyechart.metrics.circular import circular_groups, circular_hit, row_index
from eyechart.scorers.choice import ChoiceScorer, read_choice, report, unique
from eyechart.scorers.scorer import UNDECIDED, Score
from eyechart.scorers.tables import Rows


def mmbench(rows: Iterable[Row], extractor: str = "vlmeval") -> dict[str, Any]:
    """Score MMBench, CCBench and other circular sets: `hit` per question, and `result`.

    Only the rows whose index is their group's are reported. An undecided prediction is wrong.
    """
    found = unique(rows)
    groups = circular_groups(found)
    mains = {row_index(row): as_text(row["index"]) for row in found}
    lost = sorted(groups.keys() - mains.keys())
    if lost:
        raise ValueError(f"{len(lost)} questions have rotations but no row of their own, the first is index {lost[0]}")
    return report(found, {mains[group]: group_hit(members, extractor) or 0 for group, members in groups.items()})


def group_hit(rows: Rows, extractor: str = "vlmeval") -> int | None:
    """Judge the rotations of one question: 1, 0, or None when the undecided ones need a judge."""
    chosen = [read_choice(row, extractor).choice for row in rows]
    return circular_hit(chosen, [as_text(row["answer"]) for row in rows])


class CircularScorer(ChoiceScorer):
    """Multiple choice with rotations."""

    def worth_judging(self, rows: Rows, scores: Sequence[Score]) -> list[int]:
        """Leave out the rotations of questions that are lost already."""
        pairs = zip(rows, scores, strict=True)
        lost = {_group(row) for row, score in pairs if score.rule != UNDECIDED and score.correct == 0}
        return [i for i in super().worth_judging(rows, scores) if _group(rows[i]) not in lost]

    def units(self, rows: Rows, scores: Sequence[Score]) -> dict[str, float]:
        """Return one unit per question; a question with an unscored rotation is unscored, unless it is lost anyway."""
        found: dict[int, list[float | None]] = {}
        for row, score in zip(rows, scores, strict=True):
            found.setdefault(_group(row), []).append(score.correct)
        return {str(group): float(0 not in hits) for group, hits in found.items() if 0 in hits or None not in hits}

    def chance(self, rows: Rows) -> float | None:
        """Return the accuracy of guessing every rotation right."""
        groups = circular_groups(rows).values()
        return fmean(math.prod(1 / max(1, len(options_of(row))) for row in members) for members in groups)


def _group(row: Row) -> int:
    return next(iter(circular_groups([row])))


CIRCULAR = partial(CircularScorer, arrange=lambda rows: mmbench(rows)["result"])
