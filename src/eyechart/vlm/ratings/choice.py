"""Ratings of multiple choice: plain, circular, and MMMU with its open questions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from eyechart.metrics import ratings as metrics
from eyechart.metrics.answers import EXTRACTORS
from eyechart.metrics.cells import Row, as_text, options_of
from eyechart.metrics.circular import circular_groups
from eyechart.vlm.judges import ChoiceForm
from eyechart.vlm.ratings.base import JUDGE, UNDECIDED, Rating, Reading


class Choice(Rating):
    """Multiple choice."""

    form = ChoiceForm()
    extractors = tuple(EXTRACTORS)

    def read(self, row: Row, extractor: str) -> Reading:
        """Read the chosen letter."""
        found = EXTRACTORS[extractor](row.get("prediction"), options_of(row))
        rule = found.rule if found.choice is not None else UNDECIDED
        return Reading(found.choice, rule, float(found.choice == as_text(row.get("answer"))))

    def judged(self, row: Row, verdict: str) -> Reading:
        """Take the judge's letter."""
        return Reading(verdict, JUDGE, float(verdict == as_text(row.get("answer"))))

    def columns(self, row: Row, reading: Reading) -> dict[str, object]:
        """Give the letter; Z, which is never right, where there is none."""
        return {"choice": reading.extracted or "Z", "hit": reading.correct}

    def table(self, rows: Sequence[Row]) -> Any:
        """Return the accuracy per split: overall, per l2-category and category."""
        return metrics.mcq(rows)["result"]

    def headline(self, table: Any) -> dict[str, float]:
        """Return nothing: `accuracy` says it."""
        return {}

    def chance(self, rows: Sequence[Row]) -> float | None:
        """Return the accuracy of guessing among the options."""
        counts = [len(options_of(row)) for row in rows]
        return fmean(1 / count for count in counts) if counts and all(counts) else None


class Circular(Choice):
    """Multiple choice where a question counts only if every rotation of its options is answered right."""

    def worth_judging(self, rows: Sequence[Row], readings: Sequence[Reading]) -> list[int]:
        """Leave out the rotations of questions that are lost already."""
        wrong = {
            _group(row) for row, reading in zip(rows, readings, strict=True)
            if reading.rule != UNDECIDED and reading.correct == 0
        }  # fmt: skip
        return [i for i in super().worth_judging(rows, readings) if _group(rows[i]) not in wrong]

    def table(self, rows: Sequence[Row]) -> Any:
        """Return the accuracy per split over questions, all rotations right."""
        return metrics.mmbench(rows)["result"]

    def units(self, rows: Sequence[Row], readings: Sequence[Reading]) -> list[tuple[str, float]]:
        """Return one unit per question; a question with an unscored rotation is unscored, unless it is lost anyway."""
        found: dict[int, list[float | None]] = {}
        for row, reading in zip(rows, readings, strict=True):
            found.setdefault(_group(row), []).append(reading.correct)
        units = []
        for group, hits in found.items():
            if 0 in hits or None not in hits:
                units.append((str(group), float(0 not in hits)))
        return units

    def chance(self, rows: Sequence[Row]) -> float | None:
        """Return the accuracy of guessing every rotation right."""
        groups = circular_groups(rows).values()
        return fmean(math.prod(1 / max(1, len(options_of(row))) for row in members) for members in groups)


def _group(row: Row) -> int:
    return next(iter(circular_groups([row])))


class Mmmu(Choice):
    """MMMU: an open question is a choice between its answer and any other, as in VLMEvalKit."""

    def prepare(self, row: Row) -> dict[str, object]:
        """Close open questions."""
        return metrics.close_open(row)
