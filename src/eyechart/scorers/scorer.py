"""What a scorer is: it reads one answer, takes a judge's verdict on one, and makes the table of a whole benchmark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from eyechart.datasets.questions.benchmarks import QuestionBenchmark
from eyechart.metrics.cells import Row, as_text
from eyechart.scorers.judges import JudgeForm

UNDECIDED = "undecided"
UNREADABLE = "unreadable verdict"
JUDGE = "judge"


@dataclass(frozen=True, slots=True)
class Score:
    """What was read from one answer, by which rule, and how right it is; ``correct`` None means unscored."""

    extracted: str | None
    rule: str
    correct: float | None
    grades: Mapping[str, float] | None = None
    """A judge's grades in several respects, where there are such."""


class Scorer:
    """The common shape; a subclass writes `score` and `table`, and `judged` if it has a ``form``."""

    form: ClassVar[JudgeForm | None] = None
    """How a judge is asked about answers whose rule is `UNDECIDED`."""
    extractors: ClassVar[tuple[str, ...]] = ()
    """The ways to read an answer that it knows."""
    binary: ClassVar[bool] = True
    """Whether an answer is right or wrong, or scored with a fraction."""
    per_answer: ClassVar[bool] = True
    """Whether a single answer has a score; without, only the whole set has."""
    reference: ClassVar[str] = "answer"
    """The column without which nothing can be scored."""
    shown: ClassVar[tuple[str, ...]] = ()
    """The numbers of the table that become metrics of their own, as they are."""
    primary: ClassVar[str] = "accuracy"
    """The metric that stands for the benchmark."""

    def __init__(self, benchmark: QuestionBenchmark, extractor: str = "vlmeval") -> None:
        self.benchmark, self.extractor = benchmark, extractor

    def prepare(self, row: Row) -> list[dict[str, object]]:
        """Bring a row with its ``prediction`` to the form that is scored; a dialogue becomes several rows."""
        return [dict(row)]

    def score(self, row: Row, answer: object) -> Score:
        """Read an answer by rule."""
        raise NotImplementedError

    def judged(self, row: Row, verdict: Any) -> Score:
        """Take a judge's verdict."""
        raise NotImplementedError

    def worth_judging(self, rows: Sequence[Row], scores: Sequence[Score]) -> list[int]:
        """Return the positions of the answers that a judge shall read."""
        return [i for i, score in enumerate(scores) if score.rule == UNDECIDED]

    def columns(self, score: Score) -> dict[str, object]:
        """Return what the table needs of a score."""
        return {"extracted": score.extracted, "score": score.correct}

    def table(self, rows: Sequence[Row]) -> Any:
        """Make the benchmark's own table from rows with the columns of their scores."""
        raise NotImplementedError

    def numbers(self, table: Any) -> dict[str, float]:
        """Pick the numbers of the table that become metrics."""
        return {name: float(table[name]) for name in self.shown if name in table}

    def means(self) -> tuple[str, ...]:
        """Return further names of the mean over questions, besides accuracy."""
        return ()

    def chance(self, rows: Sequence[Row]) -> float | None:
        """Return the accuracy of guessing, where that means something."""
        return None

    def units(self, rows: Sequence[Row], scores: Sequence[Score]) -> dict[str, float]:
        """Return the independent questions by index, with how right each is; unscored ones are left out."""
        pairs = zip(rows, scores, strict=True)
        return {as_text(row["index"]): score.correct for row, score in pairs if score.correct is not None}
