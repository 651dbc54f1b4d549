"""Ratings of yes/no questions: MME, POPE, HallusionBench, AMBER, VSR and tables of one's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from eyechart.metrics import ratings as metrics
from eyechart.metrics.answers import YES_NO_EXTRACTORS
from eyechart.metrics.cells import Row, as_text
from eyechart.vlm.judges import YesNoForm
from eyechart.vlm.ratings.base import IGNORE_CASE, JUDGE, UNDECIDED, Rating, Reading

YES_NO_TABLES: dict[str, Callable[[Sequence[Row]], Any]] = {
    "yes_no": metrics.yes_no,
    "mme": metrics.mme,
    "pope": metrics.pope,
    "hallusion": metrics.hallusion,
    "amber": metrics.amber,
    "vsr": metrics.vsr,
}
_YES_NO_HEADLINES = ("perception", "reasoning", "aAcc", "fAcc", "qAcc", "Avg ACC")


class YesNo(Rating):
    """Yes/no questions."""

    form = YesNoForm()
    extractors = tuple(YES_NO_EXTRACTORS)

    def read(self, row: Row, extractor: str) -> Reading:
        """Read yes or no."""
        found = YES_NO_EXTRACTORS[extractor](row.get("prediction"))
        return Reading(found, UNDECIDED if found == "Unknown" else extractor, self._correct(row, found))

    def judged(self, row: Row, verdict: str) -> Reading:
        """Take the judge's word."""
        return Reading(verdict, JUDGE, self._correct(row, verdict))

    def _correct(self, row: Row, found: str) -> float:
        answer = as_text(row.get("answer"))
        if self.benchmark.rating == "amber" or self.benchmark.metric == IGNORE_CASE:
            return float(answer.lower() == found.lower())
        return float(answer == found)

    def table(self, rows: Sequence[Row]) -> Any:
        """Make the benchmark's table."""
        return YES_NO_TABLES[self.benchmark.rating](rows)

    def headline(self, table: Any) -> dict[str, float]:
        """Pick sums and group accuracies; POPE's F1."""
        flat = table.get("Overall") if isinstance(table.get("Overall"), dict) else table
        if self.benchmark.rating == "pope":
            return {"F1": flat["Overall"] / 100, "precision": flat["precision"] / 100, "recall": flat["recall"] / 100}
        return {name: flat[name] for name in _YES_NO_HEADLINES if name in flat}

    def chance(self, rows: Sequence[Row]) -> float | None:
        """Return one half."""
        return 0.5
