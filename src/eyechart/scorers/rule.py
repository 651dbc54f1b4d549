"""Open answers compared by a rule that the catalogue names: ``parameters.rule``, with what it needs to know.

The other parameters: ``table``, how the benchmark's table is arranged (`eyechart.scorers.shapes`); ``reference``, the
column without which nothing can be scored; ``number``, the number of the table that stands for the benchmark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from eyechart.datasets.questions.benchmarks import QuestionBenchmark
from eyechart.metrics.cells import Row, as_text
from eyechart.scorers.judging.replies import NO_ANSWER
from eyechart.scorers.rules import RULES, Reading
from eyechart.scorers.scorer import DIFFERENT, JUDGE, UNDECIDED, Score, Scorer, pick
from eyechart.scorers.shapes import SHAPES


class RuleScorer(Scorer):
    """Reads and compares each answer by one rule."""

    binary = False

    @property
    def rule(self) -> tuple[str, Callable[[Row, str], Reading]]:
        """Return the rule's name, and the rule with its options."""
        given = self.benchmark.parameters["rule"]
        name, options = (given, {}) if isinstance(given, str) else (given["name"], _without(given, "name"))
        return name, partial(RULES.load(name), **options)

    def score(self, row: Row, answer: object) -> Score:
        """Compare by the rule."""
        name, rule = self.rule
        read = rule(row, as_text(answer))
        lost = not read.score and (read.extracted is None or not as_text(answer).strip())
        return Score(read.extracted, UNDECIDED if lost else name, read.score, {**read.grades, **read.facts})

    def assume(self, row: Row, rule: str, *, right: bool = False) -> Score:
        """Take an answer that nobody could read for wrong, or right, in every respect."""
        read = self.rule[1](row, "")
        return Score(None, rule, float(right), {**dict.fromkeys(read.grades, float(right)), **read.facts})

    def columns(self, score: Score) -> dict[str, object]:
        """Return what was read, its score, and the grades in other respects."""
        return {**super().columns(score), **(score.grades or {})}


class JudgedScorer(RuleScorer):
    """Reads and compares by a rule; where that does not say it is right, a judge decides whether it is."""

    form = "verdict"

    def score(self, row: Row, answer: object) -> Score:
        """Compare by the rule; what differs may still mean the same."""
        read = super().score(row, answer)
        return read if read.correct == 1 or read.rule == UNDECIDED else replace(read, rule=DIFFERENT, correct=0.0)

    def judged(self, row: Row, verdict: Any) -> Score:
        """Take the verdict in every respect."""
        assumed = self.assume(row, JUDGE, right=False)
        grades = {**(assumed.grades or {}), **dict.fromkeys(self.rule[1](row, "").grades, verdict)}
        return replace(assumed, extracted=as_text(row.get("prediction")), correct=verdict, grades=grades)


class ExtractedScorer(RuleScorer):
    """Lets a judge extract the final answer, and compares that by the rule."""

    form = "extract"

    def score(self, row: Row, answer: object) -> Score:
        """Take what is right as it stands; from all else the judge extracts an answer."""
        read = super().score(row, answer)
        return read if read.correct == 1 or read.rule == UNDECIDED else replace(read, rule=DIFFERENT)

    def judged(self, row: Row, verdict: Any) -> Score:
        """Compare what the judge extracted; no answer is wrong."""
        if verdict == NO_ANSWER:
            return self.assume(row, JUDGE)
        return replace(super().score(row, verdict), rule=JUDGE)


def _without(given: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name != key}


def rule_scorer(
    benchmark: QuestionBenchmark, extractor: str = "vlmeval", kind: type[RuleScorer] = RuleScorer
) -> RuleScorer:
    """Return the scorer of a benchmark whose parameters name a rule and a table."""
    table = dict(benchmark.parameters.get("table", {}))
    arrange = partial(SHAPES[table.pop("form", "groups")], **table)
    number = benchmark.parameters.get("number", "")
    chosen = {"numbers": pick(number), "points": bool(benchmark.parameters.get("points")), "primary": number}
    return kind(benchmark, extractor, arrange=arrange, **(chosen if number else {}))


RULE = rule_scorer
VERDICT = partial(rule_scorer, kind=JudgedScorer)
EXTRACTED = partial(rule_scorer, kind=ExtractedScorer)
