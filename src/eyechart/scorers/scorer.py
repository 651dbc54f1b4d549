"""The scorer of generative benchmarks: read -> judge policy -> aggregate.

A benchmark's entry names a rule and an aggregate as ``module:function``; modules that start with ``rules.`` or
``aggregates.`` are relative to `eyechart.scorers`. Both are imported when the benchmark is scored.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
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
Unit = Callable[[Row], Hashable]


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
    **dict.fromkeys(("choice", "yes_no", "letters", "grade", "compare", "components", "dialogue"), JudgePolicy()),
    "verdict": JudgePolicy("different", partial_credit=False),
    "extract": JudgePolicy("different", take_answer),
    **dict.fromkeys(("harm", "risk", "help"), JudgePolicy("always", take_label)),
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

    def table(self, rows: Rows, results: Sequence[RuleResult]) -> Any:
        """Compute the benchmark's own table."""
        pairs = zip(rows, results, strict=True)
        return self.aggregate([{**row, **result.columns, **self.hooks.columns(result)} for row, result in pairs])


def scorer_of(benchmark: QuestionBenchmark, extractor: str = "vlmeval") -> Scorer:
    """Return the scorer of a benchmark; `UsageError` if its rule or its aggregate cannot be imported."""
    if benchmark.parts:
        return _composite(benchmark, extractor)
    name, options = split_spec(benchmark.rule)
    if ":" not in name and name not in RULES.names() and name in SCORERS.names():
        made: Scorer = SCORERS.load(name)(benchmark, extractor)
        return made
    if benchmark.metric:
        options["metric"] = benchmark.metric
    bound = BoundRule(benchmark, name.rpartition(":")[2], load_function(name), options, extractor)
    hooks, primary = bound.hooks, benchmark.primary
    name, options = split_spec(benchmark.aggregate or hooks.aggregate)
    aggregate = load_function(name)
    reports = getattr(aggregate, "reports", Reports())
    form = benchmark.judge_form or hooks.judge_form
    policy = POLICIES[form]

    def prepare(row: Row) -> list[dict[str, object]]:
        if reports.unit is not None:
            reports.unit(row)  # raises for a row that belongs to no question
        return hooks.prepare(bound, row)

    return Scorer(
        benchmark,
        extractor,
        form,
        hooks,
        prepare=prepare,
        read=lambda row, answer: policy.apply(bound.read(row, answer), bound.name),
        judged=partial(hooks.judged or policy.take, bound),
        assume=bound.assume,
        aggregate=partial(aggregate, **options),
        worth_judging=partial(_worth_judging, policy, reports.unit),
        units=partial(_units, reports.unit),
        chance=reports.chance or partial(hooks.chance, bound),
        notices=lambda rows: [*hooks.notices(bound, rows), *reports.notices(rows)],
        numbers=pick(primary) if primary else reports.numbers,
        points=benchmark.points or reports.points,
        primary=primary or reports.primary,
        names=hooks.names(bound),
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


def _worth_judging(policy: JudgePolicy, unit: Unit | None, rows: Rows, results: Sequence[RuleResult]) -> list[int]:
    """Positions of the answers for the judge, without questions that are wrong already."""
    wanted = [i for i, result in enumerate(results) if policy.wants(result)]
    if unit is None:
        return wanted
    pairs = zip(rows, results, strict=True)
    lost = {unit(row) for row, result in pairs if result.rule != UNDECIDED and result.score == 0}
    return [i for i in wanted if unit(rows[i]) not in lost]


def _units(unit: Unit | None, rows: Rows, results: Sequence[RuleResult]) -> dict[str, float]:
    """The independent questions by index, with their scores: single rows, or the rows that share a unit."""
    pairs = zip(rows, results, strict=True)
    if unit is None:
        return {as_text(row["index"]): result.score for row, result in pairs if result.score is not None}
    scored = [{**row, "score": result.score} for row, result in pairs]
    return {str(name): all_right(members) for name, members in grouped(scored, unit).items()}


def _composite(benchmark: QuestionBenchmark, extractor: str) -> Scorer:
    """Return the scorer of a composite benchmark, whose parts are all of one kind."""
    parts = _Parts({name: scorer_of(known_benchmarks()[name], extractor) for name in benchmark.parts})
    return replace(
        next(iter(parts.scorers.values())),
        benchmark=benchmark,
        prepare=parts.prepare,
        read=partial(parts.call, "read"),
        judged=partial(parts.call, "judged"),
        assume=partial(parts.call, "assume"),
        aggregate=parts.table,
        worth_judging=parts.worth_judging,
        units=parts.units,
        chance=parts.chance,
        notices=parts.notices,
        numbers=_accuracies,
        points=False,
        primary="accuracy",
        names=(),
    )


@dataclass(frozen=True)
class _Parts:
    """The parts of a composite benchmark: each row is scored as in the benchmark it comes from."""

    scorers: Mapping[str, Scorer]

    def split(self, rows: Rows) -> Iterator[tuple[str, list[int], list[Row]]]:
        """Yield each part's name, the positions of its rows, and these rows with the index they have in the part."""
        for name, places in grouped(range(len(rows)), lambda i: as_text(rows[i][PART])).items():
            yield name, places, [{**rows[i], "index": rows[i][PART_INDEX]} for i in places]

    def call(self, name: str, row: Row, *given: Any, **known: Any) -> Any:
        return getattr(self.scorers[as_text(row[PART])], name)({**row, "index": row[PART_INDEX]}, *given, **known)

    def prepare(self, row: Row) -> list[dict[str, object]]:
        """Prepare a row as its part does; it keeps its own index."""
        return [{**made, "index": row["index"]} for made in self.call("prepare", row)]

    def worth_judging(self, rows: Rows, results: Sequence[RuleResult]) -> list[int]:
        found: list[int] = []
        for name, places, members in self.split(rows):
            chosen = self.scorers[name].worth_judging(members, [results[i] for i in places])
            found += [places[i] for i in chosen]
        return sorted(found)

    def units(self, rows: Rows, results: Sequence[RuleResult]) -> dict[str, float]:
        """The questions of all parts, by index in the composite."""
        units: dict[str, float] = {}
        for name, places, members in self.split(rows):
            owners = {as_text(row["index"]): as_text(rows[i]["index"]) for row, i in zip(members, places, strict=True)}
            each = self.scorers[name].units(members, [results[i] for i in places])
            units |= {owners[index]: value for index, value in each.items()}
        return units

    def notices(self, rows: Rows) -> list[Notice]:
        """The parts' notices, with their names."""
        return [
            replace(notice, message=UserMessage("{name}: {reason}", name=name, reason=notice.message))
            for name, _, members in self.split(rows)
            for notice in self.scorers[name].notices(members)
        ]

    def chance(self, rows: Rows) -> float | None:
        """The mean of the parts' chance levels, weighted by their number of questions."""
        each = [(self.scorers[name].chance(members), len(members)) for name, _, members in self.split(rows)]
        known = [chance * count for chance, count in each if chance is not None]
        return sum(known) / len(rows) if len(known) == len(each) else None

    def table(self, rows: Rows) -> Any:
        """Merge the parts' tables: lines get a column DATASET, single numbers the part's name as prefix."""
        made = {name: self.scorers[name].aggregate(members) for name, _, members in self.split(rows)}
        if all(isinstance(table, list) for table in made.values()):
            return [{**line, "DATASET": name} for name, table in made.items() for line in table]
        return {f"{name}:{key}": value for name, table in made.items() for key, value in table.items()}


def _accuracies(table: Any) -> Numbers:
    """Return the accuracy of each part whose table has a single line."""
    lines = [line for line in table if "Overall" in line] if isinstance(table, list) else []
    names = [str(line["DATASET"]) for line in lines]
    return {name: float(line["Overall"]) for name, line in zip(names, lines, strict=True) if names.count(name) == 1}
