"""Open answers compared by a rule that the catalogue names: ``parameters.rule``, with what it needs to know.

The other parameters: ``table``, how the benchmark's table is arranged (`eyechart.scorers.shapes`); ``reference``, the
column without which nothing can be scored; ``number``, the number of the table that stands for the benchmark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from eyechart.datasets.questions.benchmarks import QuestionBenchmark
from eyechart.metrics.cells import Row, as_text
from eyechart.scorers.rules import RULES, Reading
from eyechart.scorers.scorer import Score, Scorer, pick
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
        return Score(read.extracted, name, read.score, {**read.grades, **read.facts})

    def assume(self, row: Row, rule: str, *, right: bool = False) -> Score:
        """Take an answer that nobody could read for wrong, or right, in every respect."""
        read = self.rule[1](row, "")
        return Score(None, rule, float(right), {**dict.fromkeys(read.grades, float(right)), **read.facts})

    def columns(self, score: Score) -> dict[str, object]:
        """Return what was read, its score, and the grades in other respects."""
        return {**super().columns(score), **(score.grades or {})}


def _without(given: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name != key}


def rule_scorer(benchmark: QuestionBenchmark, extractor: str = "vlmeval") -> RuleScorer:
    """Return the scorer of a benchmark whose parameters name a rule and a table."""
    table = dict(benchmark.parameters.get("table", {}))
    arrange = partial(SHAPES[table.pop("form", "groups")], **table)
    number = benchmark.parameters.get("number", "")
    chosen = {"numbers": pick(number), "points": bool(benchmark.parameters.get("points")), "primary": number}
    return RuleScorer(benchmark, extractor, arrange=arrange, **(chosen if number else {}))


RULE = rule_scorer
