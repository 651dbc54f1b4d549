"""Ratings of open answers by rule: compared, looked for, or scored as a whole set."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from eyechart.metrics import ratings as metrics
from eyechart.metrics.answers import open_score
from eyechart.metrics.captions import score_captions
from eyechart.metrics.cells import Row, as_text, text_list
from eyechart.vlm.ratings.base import Rating, Reading


class Open(Rating):
    """Open questions, compared with their answers by the benchmark's metric."""

    binary = False

    def read(self, row: Row, extractor: str) -> Reading:
        """Compare."""
        text = as_text(row.get("prediction"))
        return Reading(text, self.benchmark.metric, open_score(text, row.get("answer"), self.benchmark.metric))

    def table(self, rows: Sequence[Row]) -> Any:
        """Return the mean per split or category."""
        return metrics.vqa(rows, self.benchmark.metric)

    def headline(self, table: Any) -> dict[str, float]:
        """Return the metric under its own name, as a fraction."""
        return {self.benchmark.metric: table["Overall"] / 100}


class Contains(Rating):
    """Answers that are looked for in what the model writes: OCRBench and MTVQA."""

    KINDS: Mapping[str, tuple[Callable[[Row], bool], Callable[[Sequence[Row]], Any], str]] = {
        "ocrbench": (metrics.ocrbench_hit, metrics.ocrbench, "Final Score"),
        "mtvqa": (metrics.mtvqa_hit, metrics.mtvqa, "Average"),
    }

    def read(self, row: Row, extractor: str) -> Reading:
        """Look for the answer."""
        hit, _, _ = self.KINDS[self.benchmark.rating]
        return Reading(as_text(row.get("prediction")), "contains", float(hit(row)))

    def table(self, rows: Sequence[Row]) -> Any:
        """Make the benchmark's table."""
        return self.KINDS[self.benchmark.rating][1](rows)

    def headline(self, table: Any) -> dict[str, float]:
        """Pick its main number."""
        name = self.KINDS[self.benchmark.rating][2]
        return {name: table[name]}


class Corpus(Rating):
    """Scores that only a whole set has: captions and restored words."""

    binary = False

    def read(self, row: Row, extractor: str) -> Reading:
        """Take the text; a single one has no score."""
        return Reading(as_text(row.get("prediction")), "text", None)

    def units(self, rows: Sequence[Row], readings: Sequence[Reading]) -> list[tuple[str, float]]:
        """Return none."""
        return []

    def table(self, rows: Sequence[Row]) -> Any:
        """Score all together."""
        if self.benchmark.rating == "caption":
            return score_captions(
                [row.get("prediction") for row in rows], [text_list(row.get("answer")) for row in rows]
            )
        return metrics.vcr(rows, "zh" if self.benchmark.rating == "vcr_zh" else "en")

    def headline(self, table: Any) -> dict[str, float]:
        """Return every number."""
        return dict(table)
