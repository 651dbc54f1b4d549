"""The scorer of generative benchmarks: read -> judge policy -> aggregate.

A benchmark's entry names a rule and an aggregate as ``module:function``; modules that start with ``rules.`` or
``aggregates.`` are relative to `eyechart.scorers`. Both are imported when the benchmark is scored.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import Any, Literal

from eyechart.datasets.questions.benchmarks import PART, PART_INDEX, FunctionSpec, QuestionBenchmark, known_benchmarks
from eyechart.errors import UsageError, first_line
from eyechart.messages import UserMessage
from eyechart.metrics.cell_values import Row, as_text
from eyechart.plugins import Registry
from eyechart.scorers.aggregates.means import NO_NUMBERS, Numbers, Reports, all_right, grouped, pick
from eyechart.scorers.rule import (
    CUT,
    DIFFERENT,
    FAILED,
    UNDECIDED,
    BoundRule,
    Rows,
    RuleHooks,
    RuleResult,
    take_answer,
    take_grade,
    take_label,
)
from eyechart.types import Notice

RULES = Registry("rules", "rule", {})
"""Rules of other packages by name, from the entry point group ``eyechart.rules``."""
SCORERS = Registry("scorers", "scorer", {})
"""Functions (benchmark, extractor) -> `Scorer` of other packages, from the entry point group ``eyechart.scorers``."""
_OURS = ("rules.", "aggregates.")


@dataclass(frozen=True)
class JudgePolicy:
    """Which answers a judge reads, and how its verdict is interpreted."""

    when: Literal["never", "undecided", "different", "always"] = "undecided"
    """Which answers: none; unreadable ones; those and answers that are not literally right; all."""
    take: Callable[[BoundRule, Row, Any], RuleResult] = take_grade
    """Interprets a verdict, unless the rule overrides it."""
    partial_credit: bool = True
    """Whether a partly right answer keeps its score while no judge has read it."""

    def apply(self, result: RuleResult, name: str) -> RuleResult:
        """Mark an answer that is not literally right for a judge."""
        if self.when != "different" or result.rule != name or result.score == 1:
            return result
        return replace(result, rule=DIFFERENT, score=result.score if self.partial_credit else 0.0)

    def wants(self, result: RuleResult) -> bool:
        """Whether a judge reads this answer."""
        if self.when == "always":
            return result.rule not in (CUT, FAILED)
        return self.when != "never" and result.rule in (UNDECIDED, DIFFERENT)


POLICIES: Mapping[str, JudgePolicy] = {
    "": JudgePolicy("never"),
    "choice": JudgePolicy(),
    "yes_no": JudgePolicy(),
    "letters": JudgePolicy(),
    "grade": JudgePolicy(),
    "compare": JudgePolicy(),
    "components": JudgePolicy(),
    "dialogue": JudgePolicy(),
    "verdict": JudgePolicy("different", partial_credit=False),
    "extract": JudgePolicy("different", take_answer),
    "harm": JudgePolicy("always", take_label),
    "risk": JudgePolicy("always", take_label),
    "help": JudgePolicy("always", take_label),
}
"""Judge policies by judge form (an entry of ``judging/prompts.toml``)."""


@dataclass(frozen=True)
class Scorer:
    """A benchmark's pipeline from answers to its table: reading, judging, aggregating."""

    benchmark: QuestionBenchmark
    extractor: str
    form: str
    """The judge form; empty: no judge."""
    hooks: RuleHooks
    prepare: Callable[[Row], list[dict[str, object]]]
    read: Callable[[Row, object], RuleResult]
    judged: Callable[[Row, Any], RuleResult]
    """Converts a verdict to the result of an answer."""
    assume: Callable[..., RuleResult]
    """(row, rule, right=False): the worst case, or the best case, of an unreadable answer."""
    aggregate: Callable[[Rows], Any]
    """Computes the benchmark's own table from rows with the columns of their results."""
    worth_judging: Callable[[Rows, Sequence[RuleResult]], list[int]]
    """Positions of the answers a judge should read."""
    units: Callable[[Rows, Sequence[RuleResult]], dict[str, float]]
    """The independent questions by index, with their scores."""
    chance: Callable[[Rows], float | None]
    notices: Callable[[Rows], list[Notice]]
    numbers: Callable[[Any], Numbers] = NO_NUMBERS
    """Selects the numbers of the table that become metrics."""
    points: bool = False
    """True if those are points or percent, as in the table; otherwise fractions."""
    primary: str = "accuracy"
    """The primary metric of the benchmark."""
    names: tuple[str, ...] = ()
    """Further names of the mean over questions, in addition to accuracy."""

    @property
    def reference(self) -> str:
        """The column required for scoring."""
        return self.benchmark.reference or self.hooks.reference

    def columns(self, result: RuleResult) -> dict[str, object]:
        """Columns of a result in files of scored predictions."""
        return self.hooks.columns(result)

    def table(self, rows: Rows, results: Sequence[RuleResult]) -> Any:
        """Compute the benchmark's own table."""
        pairs = zip(rows, results, strict=True)
        return self.aggregate([{**row, **result.columns, **self.columns(result)} for row, result in pairs])


def scorer_of(benchmark: QuestionBenchmark, extractor: str = "vlmeval") -> Scorer:
    """Return the scorer of a benchmark.

    Raises:
        UsageError: If its rule or its aggregate cannot be imported.
    """
    if benchmark.parts:
        return scorer_of_parts(benchmark, extractor)
    name, options = split_spec(benchmark.rule)
    if ":" not in name and name not in RULES.names() and name in SCORERS.names():
        made: Scorer = SCORERS.load(name)(benchmark, extractor)
        return made
    if benchmark.metric:
        options["metric"] = benchmark.metric
    bound = BoundRule(benchmark, name.rpartition(":")[2], load_function(name), options, extractor)
    return scorer_of_rule(bound)


def scorer_of_rule(bound: BoundRule) -> Scorer:
    """Return the scorer of a benchmark with a given rule."""
    benchmark, hooks = bound.benchmark, bound.hooks
    name, options = split_spec(benchmark.aggregate or hooks.aggregate)
    aggregate = load_function(name)
    reports = getattr(aggregate, "reports", Reports())
    form = benchmark.judge_form or hooks.judge_form
    policy = POLICIES[form]
    by_unit = _UnitScores(policy, reports.unit)
    primary = benchmark.primary
    return Scorer(
        benchmark,
        bound.extractor,
        form,
        hooks,
        prepare=partial(_prepare, bound, reports.unit),
        read=partial(_read, bound, policy),
        judged=partial(hooks.judged or policy.take, bound),
        assume=bound.assume,
        aggregate=partial(aggregate, **options),
        worth_judging=by_unit.worth_judging,
        units=by_unit.units,
        chance=reports.chance or (partial(hooks.chance, bound) if hooks.chance else lambda _: None),
        notices=partial(_notices, bound, reports),
        numbers=pick(primary) if primary else reports.numbers,
        points=benchmark.points or reports.points,
        primary=primary or reports.primary,
        names=hooks.names(bound) if hooks.names else (),
    )


def split_spec(spec: FunctionSpec) -> tuple[str, dict[str, Any]]:
    """Split the entry of a function into its name and its options."""
    if isinstance(spec, str):
        return spec, {}
    return spec["function"], {name: value for name, value in spec.items() if name != "function"}


def load_function(name: str) -> Callable[..., Any]:
    """Import ``module:function``; a name without a module is an entry point."""
    module, _, function = name.rpartition(":")
    if not module or name.startswith("python:"):
        found: Callable[..., Any] = RULES.load(name)
        return found
    try:
        found = getattr(import_module(f"{__package__}.{module}" if module.startswith(_OURS) else module), function)
    except (ImportError, AttributeError) as error:
        raise UsageError(
            "{name} cannot be imported ({reason}).",
            advice="Name a rule or an aggregate as module:function.",
            name=name,
            reason=first_line(error),
        ) from error
    return found


def _prepare(bound: BoundRule, unit: Callable[[Row], Hashable] | None, row: Row) -> list[dict[str, object]]:
    if unit is not None:
        unit(row)  # raises for a row that belongs to no question
    return bound.hooks.prepare(bound, row)


def _read(bound: BoundRule, policy: JudgePolicy, row: Row, answer: object) -> RuleResult:
    return policy.apply(bound.read(row, answer), bound.name)


def _notices(bound: BoundRule, reports: Reports, rows: Rows) -> list[Notice]:
    own = bound.hooks.notices(bound, rows) if bound.hooks.notices else []
    return [*own, *(reports.notices(rows) if reports.notices else [])]


@dataclass(frozen=True)
class _UnitScores:
    """Scores of questions: of single rows, or of groups of rows that an aggregate counts as one question."""

    policy: JudgePolicy
    unit: Callable[[Row], Hashable] | None

    def worth_judging(self, rows: Rows, results: Sequence[RuleResult]) -> list[int]:
        """Positions of the answers for the judge, without questions that are wrong already."""
        wanted = [i for i, result in enumerate(results) if self.policy.wants(result)]
        if self.unit is None:
            return wanted
        pairs = zip(rows, results, strict=True)
        lost = {self.unit(row) for row, result in pairs if result.rule != UNDECIDED and result.score == 0}
        return [i for i in wanted if self.unit(rows[i]) not in lost]

    def units(self, rows: Rows, results: Sequence[RuleResult]) -> dict[str, float]:
        """The independent questions by index, with their scores."""
        pairs = zip(rows, results, strict=True)
        if self.unit is None:
            return {as_text(row["index"]): result.score for row, result in pairs if result.score is not None}
        scored = [{**row, "score": result.score} for row, result in pairs]
        return {str(unit): all_right(members) for unit, members in grouped(scored, self.unit).items()}


# Composite benchmarks: each row is scored as in the benchmark it comes from; the table combines those of all parts.


Parts = Mapping[str, Scorer]


def scorer_of_parts(benchmark: QuestionBenchmark, extractor: str) -> Scorer:
    """Return the scorer of a composite benchmark, whose parts are all of one kind."""
    parts = {name: scorer_of(known_benchmarks()[name], extractor) for name in benchmark.parts}
    return replace(
        next(iter(parts.values())),
        benchmark=benchmark,
        prepare=partial(_parts_prepare, parts),
        read=partial(_in_part, {name: part.read for name, part in parts.items()}),
        judged=partial(_in_part, {name: part.judged for name, part in parts.items()}),
        assume=partial(_in_part, {name: part.assume for name, part in parts.items()}),
        aggregate=partial(tables, parts),
        worth_judging=partial(_worth_judging, parts),
        units=partial(_units, parts),
        chance=partial(_chance, parts),
        notices=partial(_parts_notices, parts),
        numbers=accuracies,
        points=False,
        primary="accuracy",
        names=(),
    )


def part_name(row: Row) -> str:
    """Return the part a row comes from."""
    return as_text(row[PART])


def in_part(row: Row) -> dict[str, object]:
    """Return the row with the index it has in its part."""
    return {**row, "index": row[PART_INDEX]}


def _in_part(functions: Mapping[str, Callable[..., RuleResult]], row: Row, *given: Any, **known: Any) -> RuleResult:
    return functions[part_name(row)](in_part(row), *given, **known)


def _parts_prepare(parts: Parts, row: Row) -> list[dict[str, object]]:
    """Prepare a row as its part does; it keeps its own index."""
    return [{**made, "index": row["index"]} for made in parts[part_name(row)].prepare(in_part(row))]


def _worth_judging(parts: Parts, rows: Rows, results: Sequence[RuleResult]) -> list[int]:
    found: list[int] = []
    for name, places in _places(rows).items():
        chosen = parts[name].worth_judging([in_part(rows[i]) for i in places], [results[i] for i in places])
        found += [places[i] for i in chosen]
    return sorted(found)


def _units(parts: Parts, rows: Rows, results: Sequence[RuleResult]) -> dict[str, float]:
    """The questions of all parts, by index in the composite."""
    units: dict[str, float] = {}
    for name, places in _places(rows).items():
        members = [in_part(rows[i]) for i in places]
        owners = {as_text(row["index"]): as_text(rows[i]["index"]) for row, i in zip(members, places, strict=True)}
        each = parts[name].units(members, [results[i] for i in places])
        units |= {owners[index]: value for index, value in each.items()}
    return units


def _parts_notices(parts: Parts, rows: Rows) -> list[Notice]:
    found = (
        (name, notice)
        for name, members in grouped(rows, part_name).items()
        for notice in parts[name].notices(list(map(in_part, members)))
    )
    return [
        replace(notice, message=UserMessage("{name}: {reason}", name=name, reason=notice.message))
        for name, notice in found
    ]


def _chance(parts: Parts, rows: Rows) -> float | None:
    """The mean of the parts' chance levels, weighted by their number of questions."""
    groups = grouped(rows, part_name).items()
    each = [(parts[name].chance(list(map(in_part, group))), len(group)) for name, group in groups]
    known = [(chance, count) for chance, count in each if chance is not None]
    return sum(chance * count for chance, count in known) / len(rows) if len(known) == len(each) else None


def _places(rows: Rows) -> dict[str, list[int]]:
    places: dict[str, list[int]] = {}
    for i, row in enumerate(rows):
        places.setdefault(part_name(row), []).append(i)
    return places


def tables(parts: Parts, rows: Rows) -> Any:
    """Merge the parts' tables: lines get a column DATASET, single numbers the part's name as prefix."""
    made = {name: parts[name].aggregate(list(map(in_part, group))) for name, group in grouped(rows, part_name).items()}
    if all(isinstance(table, list) for table in made.values()):
        return [{**line, "DATASET": name} for name, table in made.items() for line in table]
    return {f"{name}:{key}": value for name, table in made.items() for key, value in table.items()}


def accuracies(table: Any) -> Numbers:
    """Return the accuracy of each part whose table has a single line."""
    lines = [line for line in table if "Overall" in line] if isinstance(table, list) else []
    names = [str(line["DATASET"]) for line in lines]
    return {name: float(line["Overall"]) for name, line in zip(names, lines, strict=True) if names.count(name) == 1}
