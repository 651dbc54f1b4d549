"""What a scorer is: it reads one answer, takes a judge's verdict on one, and arranges the table of a benchmark."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from eyechart.datasets.questions.benchmarks import QuestionBenchmark
from eyechart.metrics.cells import Row, as_text
from eyechart.scorers.tables import Rows
from eyechart.types import Notice

JUDGE = "judge"
DIFFERENT = "different"
"""The rule of an answer that was read and is not the right one as it stands; a judge may see that it means the same."""
UNDECIDED = "undecided"
"""The rule of an answer that no rule can read."""
UNREADABLE = "unreadable verdict"
"""The rule of an answer about which the judge said nothing that can be read, or nothing at all."""
CUT = "cut"
"""The rule of an answer that was cut at the longest answer (``finish_reason`` length): it is no answer."""
FAILED = "failed"
"""The rule of a question without an answer."""
NOT_NEEDED = "not needed"
"""The rule of an answer that no rule can read and no judge was asked about, as it cannot change anything."""
LOST = frozenset({UNDECIDED, UNREADABLE, CUT, FAILED})
"""The rules of answers that count as wrong because nobody could read them."""


@dataclass(frozen=True, slots=True)
class Score:
    """What was read from one answer, by which rule, and how right it is."""

    extracted: str | None
    rule: str
    correct: float | None
    """From 0 to 1; None where only the whole set has a score."""
    grades: Mapping[str, Any] | None = None
    """Grades in several respects, or what else the table needs of an answer, where there is such."""


Numbers = Mapping[str, float]


def pick(*names: str, within: str = "") -> Callable[[Any], Numbers]:
    """Return what takes some numbers out of a table, or out of a part of it."""

    def numbers(table: Any) -> Numbers:
        found = table.get(within, {}) if within else table
        return {name: float(found[name]) for name in names if name in found}

    return numbers


NOTHING = pick()


@dataclass(frozen=True)
class Scorer(ABC):
    """How one answer is read (a subclass's `score`), and what the table of all of them is."""

    benchmark: QuestionBenchmark
    extractor: str = "vlmeval"
    arrange: Callable[[Rows], Any] = list
    """Makes the benchmark's own table from rows with the columns of their scores."""
    numbers: Callable[[Any], Numbers] = NOTHING
    """Takes the numbers out of the table that become metrics."""
    points: bool = False
    """Whether those are points or per cent, as that table has them; else fractions."""
    primary: str = "accuracy"
    """The metric that stands for the benchmark."""

    form: ClassVar[str] = ""
    """How a judge is asked about answers whose rule is `UNDECIDED` or `DIFFERENT`: an entry of
    ``judging/prompts.toml``. Empty: no judge is asked."""
    extractors: ClassVar[tuple[str, ...]] = ()
    """The ways to read an answer that it knows."""
    binary: ClassVar[bool] = True
    """Whether an answer is right or wrong, or scored with a fraction."""
    per_answer: ClassVar[bool] = True
    """Whether a single answer has a score; without, only the whole set has."""
    answer_column: ClassVar[str] = "answer"

    @property
    def reference(self) -> str:
        """Return the column without which nothing can be scored."""
        return str(self.benchmark.parameters.get("reference", self.answer_column))

    def prepare(self, row: Row) -> list[dict[str, object]]:
        """Bring a row with its ``prediction`` to the form that is scored; a dialogue becomes several rows."""
        return [dict(row)]

    @abstractmethod
    def score(self, row: Row, answer: object) -> Score:
        """Read an answer by rule."""

    def judged(self, row: Row, verdict: Any) -> Score:
        """Take a judge's verdict, which is a grade unless a subclass says otherwise."""
        return Score(as_text(row.get("prediction")), JUDGE, verdict)

    def assume(self, row: Row, rule: str, *, right: bool = False) -> Score:
        """Return the score of an answer that nobody could read: wrong in every number, or right in every number.

        No answer that could be read may score less than the first, or more than the second: else a worse judge, or a
        server that fails, would raise a number. Both are in the range that stands beside a number.
        """
        return Score(None, rule, float(right))

    def worth_judging(self, rows: Rows, scores: Sequence[Score]) -> list[int]:
        """Return the positions of the answers that a judge shall read."""
        return [i for i, score in enumerate(scores) if score.rule in (UNDECIDED, DIFFERENT)]

    def columns(self, score: Score) -> dict[str, object]:
        """Return what the table needs of a score."""
        return {"extracted": score.extracted, "score": score.correct}

    def means(self) -> tuple[str, ...]:
        """Return further names of the mean over questions, besides accuracy."""
        return ()

    def chance(self, rows: Rows) -> float | None:
        """Return the accuracy of guessing, where that means something."""
        return None

    def notices(self, rows: Rows) -> list[Notice]:
        """Say what makes the numbers of these rows other than they seem."""
        return []

    def units(self, rows: Rows, scores: Sequence[Score]) -> dict[str, float]:
        """Return the independent questions by index, with how right each is."""
        pairs = zip(rows, scores, strict=True)
        return {as_text(row["index"]): score.correct for row, score in pairs if score.correct is not None}
