"""A rule: a plain function that reads one answer of a benchmark, with optional hooks.

``read(row, answer, **options) -> RuleResult`` is all a rule has to be. The `rule` decorator adds hooks where a kind of
answer needs them (preparing rows, interpreting a verdict, chance); each has a default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from typing import Any, TypeVar

from eyechart.datasets.questions.benchmarks import QuestionBenchmark
from eyechart.metrics.cell_values import Row, as_text
from eyechart.types import Answer, Notice

JUDGE = "judge"
DIFFERENT = "different"
"""Rule of an answer that was read and is not literally right; a judge may find that it means the same."""
UNDECIDED = "undecided"
"""Rule of an answer that no rule can read."""
UNREADABLE = "unreadable verdict"
"""Rule of an answer whose verdict is unreadable or missing."""
CUT = "cut"
"""Rule of an answer truncated at the token limit (``finish_reason`` length), if such answers count as wrong."""
FAILED = "failed"
"""Rule of a question without an answer."""
NOT_NEEDED = "not needed"
"""Rule of an unreadable answer that the judge skips because it cannot change any number."""
LOST = frozenset({UNDECIDED, UNREADABLE, CUT, FAILED})
"""Rules of unreadable answers, which count as wrong."""

Rows = Sequence[Row]


@dataclass(frozen=True, slots=True)
class JudgeExchange:
    """What a judge was asked about an answer, its replies in order, and the verdict read from the last one."""

    question: str
    replies: tuple[Answer, ...] = ()
    verdict: Any = None
    """None if no reply could be read."""


@dataclass(frozen=True, slots=True)
class RuleResult:
    """The value extracted from an answer, and its score."""

    extracted: str | None
    score: float | None
    """From 0 to 1. None if only the whole set has a score, or a library is missing (``needs`` in the facts)."""
    grades: Mapping[str, float] = field(default_factory=dict)
    """Further scores, from 0 to 1."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Further columns for the table."""
    rule: str = ""
    """What decided the score, as records show it. Empty: the rule's own name, or `UNDECIDED` if nothing was extracted.
    """
    exchange: JudgeExchange | None = field(default=None, compare=False)
    """What the judge was asked and replied, if there is one."""

    @property
    def columns(self) -> dict[str, object]:
        """The columns of the table for this answer."""
        return {"extracted": self.extracted, "score": self.score, **self.grades, **self.facts}


Read = Callable[..., RuleResult]


@dataclass(frozen=True)
class BoundRule:
    """A rule with a benchmark's options."""

    benchmark: QuestionBenchmark
    name: str
    function: Read
    options: Mapping[str, Any] = field(default_factory=dict)
    extractor: str = "vlmeval"

    @cached_property
    def hooks(self) -> RuleHooks:
        """The hooks of the rule."""
        found = getattr(self.function, "hooks", None)
        return found if isinstance(found, RuleHooks) else RuleHooks()

    @cached_property
    def _read_options(self) -> Mapping[str, Any]:
        options = {name: value for name, value in self.options.items() if name not in self.hooks.prepare_options}
        return {**options, "extractor": self.extractor} if self.hooks.extractors else options

    def read(self, row: Row, answer: object) -> RuleResult:
        """Read an answer and set what decided; an answer without score and value is undecided."""
        found = self.function(row, as_text(answer), **self._read_options)
        if found.rule:
            return found
        lost = found.score == 0 and (found.extracted is None or not as_text(answer).strip())
        return replace(found, rule=UNDECIDED if lost else self.name)

    def assume(self, row: Row, rule: str, *, right: bool = False) -> RuleResult:
        """The worst case of an unreadable answer, in every number, or the best case.

        No readable answer may score less than the worst case, or more than the best: otherwise a worse judge or a
        failing server would raise a number.
        """
        return replace(self.hooks.assume(self, row, right), rule=rule)


def _unread(bound: BoundRule, row: Row, right: bool) -> RuleResult:
    """Wrong, or right, in every score of the rule."""
    empty = bound.read(row, "")
    return RuleResult(None, float(right), dict.fromkeys(empty.grades, float(right)), empty.facts)


def take_grade(bound: BoundRule, row: Row, verdict: float | Mapping[str, float]) -> RuleResult:
    """The judge's grade, in every score of the rule; of several grades the worst counts."""
    assumed, said = bound.assume(row, JUDGE), as_text(row.get("prediction"))
    if isinstance(verdict, Mapping):
        return replace(assumed, extracted=said, score=min(verdict.values()), grades={**assumed.grades, **verdict})
    return replace(assumed, extracted=said, score=verdict, grades=dict.fromkeys(assumed.grades, verdict))


def take_answer(bound: BoundRule, row: Row, verdict: str) -> RuleResult:
    """The score of the answer that the judge extracted; none is wrong."""
    return bound.assume(row, JUDGE) if verdict == NO_ANSWER else replace(bound.read(row, verdict), rule=JUDGE)


def take_label(bound: BoundRule, row: Row, verdict: str | Mapping[str, float]) -> RuleResult:
    """The score of the judge's label, read by the rule, or of its grades."""
    if isinstance(verdict, str):
        return replace(bound.read(row, verdict), rule=JUDGE)
    return take_grade(bound, row, verdict)


NO_ANSWER = "NONE"
"""The judge's reply for a solution without an answer."""


@dataclass(frozen=True)
class RuleHooks:
    """The hooks of a rule."""

    prepare: Callable[[BoundRule, Row], list[dict[str, object]]] = lambda _, row: [dict(row)]
    """Converts a row with its ``prediction`` to the scored form; a dialogue becomes several rows."""
    prepare_options: tuple[str, ...] = ()
    """Options of the benchmark's entry that only ``prepare`` uses."""
    assume: Callable[[BoundRule, Row, bool], RuleResult] = _unread
    """The worst case (False) or the best case (True) of an unreadable answer."""
    judged: Callable[[BoundRule, Row, Any], RuleResult] | None = None
    """Interprets a verdict; None: the judge form's default (`eyechart.scorers.scorer.POLICIES`)."""
    columns: Callable[[RuleResult], dict[str, object]] = attrgetter("columns")
    """Columns of a result in files of scored predictions; tables also get ``extracted`` and ``score``."""
    chance: Callable[[BoundRule, Rows], float | None] = lambda _bound, _rows: None
    """The accuracy of guessing, if meaningful."""
    notices: Callable[[BoundRule, Rows], list[Notice]] = lambda _bound, _rows: []
    """Notices about these rows."""
    names: Callable[[BoundRule], tuple[str, ...]] = lambda _: ()
    """Further names of the mean over questions, in addition to accuracy."""
    judge_form: str = ""
    """The default judge form; empty: no judge."""
    aggregate: str = "aggregates.means:means"
    """The default aggregate."""
    extractors: tuple[str, ...] = ()
    """The extractors (``--extractor``) the rule accepts as the option ``extractor``."""
    binary: bool = False
    """True if an answer is either right or wrong; otherwise it may score a fraction."""
    per_answer: bool = True
    """True if single answers have a score; otherwise only the whole set has."""
    reference: str = "answer"
    """The column required for scoring."""


F = TypeVar("F", bound=Read)


def rule(**hooks: Any) -> Callable[[F], F]:
    """Attach `RuleHooks` to a rule."""

    def attach(function: F) -> F:
        function.hooks = RuleHooks(**hooks)  # type: ignore[attr-defined]
        return function

    return attach
