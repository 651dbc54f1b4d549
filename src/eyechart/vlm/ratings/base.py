"""The common shape of ratings: reading one answer, judging one, and the table of a whole benchmark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eyechart.metrics.cells import Row, as_text
from eyechart.vlm.benchmarks import Benchmark
from eyechart.vlm.judges import JudgeForm

UNDECIDED = "undecided"
UNREADABLE = "unreadable verdict"
JUDGE = "judge"
IGNORE_CASE = "ignore_case"
"""As the metric of yes/no questions: ``yes`` and ``Yes`` are the same answer (VLMEvalKit tells them apart)."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read from one answer, by which rule, and how right it is; ``correct`` None means unscored."""

    extracted: str | None
    rule: str
    correct: float | None
    grades: Mapping[str, float] | None = None
    """A judge's grades in several respects, where there are such."""


class Rating:
    """The common shape; ``form`` is how a judge is asked about answers whose rule is `UNDECIDED`."""

    form: JudgeForm | None = None
    extractors: tuple[str, ...] = ()
    """The ways to read an answer that this rating knows."""
    binary = True
    """Whether an answer is right or wrong, or scored with a fraction."""

    def __init__(self, benchmark: Benchmark) -> None:
        self.benchmark = benchmark

    def prepare_all(self, rows: Sequence[Row]) -> list[dict[str, object]]:
        """Bring the rows to the form that is scored."""
        return [self.prepare(row) for row in rows]

    def prepare(self, row: Row) -> dict[str, object]:
        """Bring one row to the form that is scored."""
        return dict(row)

    def read(self, row: Row, extractor: str) -> Reading:
        """Read an answer by rule."""
        raise NotImplementedError

    def judged(self, row: Row, verdict: Any) -> Reading:
        """Take a judge's verdict."""
        raise NotImplementedError

    def worth_judging(self, rows: Sequence[Row], readings: Sequence[Reading]) -> list[int]:
        """Return the positions of the answers that a judge shall read."""
        return [i for i, reading in enumerate(readings) if reading.rule == UNDECIDED]

    def columns(self, row: Row, reading: Reading) -> dict[str, object]:
        """Return what the table needs of a reading."""
        return {"extracted": reading.extracted, "score": reading.correct}

    def table(self, rows: Sequence[Row]) -> Any:
        """Make the benchmark's own table."""
        raise NotImplementedError

    def headline(self, table: Any) -> dict[str, float]:
        """Pick the numbers of the table that stand for the benchmark."""
        return {name: value for name, value in table.items() if name == "Overall"} if isinstance(table, dict) else {}

    def chance(self, rows: Sequence[Row]) -> float | None:
        """Return the accuracy of guessing, where that means something."""
        return None

    def units(self, rows: Sequence[Row], readings: Sequence[Reading]) -> list[tuple[str, float]]:
        """Return the independent questions by index, with how right each is; unscored ones are left out."""
        pairs = zip(rows, readings, strict=True)
        return [(as_text(row["index"]), reading.correct) for row, reading in pairs if reading.correct is not None]
