"""Averages over benchmarks that say how they are made. The page computes the same for the rows and columns shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from eyechart.report.table import Column, Table, is_fraction
from eyechart.stats import chance_normalised

AVERAGES: Mapping[str, tuple[str, str]] = {
    "plain": ("Average", "the mean over benchmarks"),
    "kind": ("Average by kind", "the mean over kinds of the mean over each kind's benchmarks"),
    "rank": ("Mean rank", "the mean over benchmarks of the rank among the models shown, 1 being the best"),
    "chance": ("Above chance", "the mean over benchmarks of (value - chance) / (1 - chance)"),
}
"""The ways to average: short name -> heading, and how it is made."""

Row = Sequence[float | None]


@dataclass(frozen=True)
class Average:
    """One number per model, and over which benchmarks."""

    values: tuple[float | None, ...]
    used: tuple[int, ...]
    """Benchmarks that every model has; if there are none, those that each model has count for it alone."""
    left_out: tuple[int, ...]
    common: bool = True

    def describe(self, how: str, table: Table) -> str:
        """Say in a sentence how the numbers were made."""
        text = f"{AVERAGES[how][0]}: {AVERAGES[how][1]}"
        if not self.common:
            return f"{text}. No benchmark has all models: each model's own are averaged, so compare with care."
        left = ", ".join(table.benchmarks[b].label for b in self.left_out)
        missing = f"; left out, as not every model has a usable value: {left}" if left else ""
        return f"{text}, over {len(self.used)} that every model has{missing}."


def average(table: Table, columns: Sequence[Column], how: str = "plain") -> Average:
    """Average over benchmarks; a benchmark with several columns counts once, as their mean."""
    models = range(len(table.models))
    by_benchmark: dict[int, list[Row]] = {}
    for column in columns:
        values = [table.value(m, column) for m in models]
        scaled = _SCALES.get(how, _fractions)(values, chance_of(table, column))
        by_benchmark.setdefault(column.benchmark, []).append(scaled)
    means = {b: [_mean([row[m] for row in rows], strict=True) for m in models] for b, rows in by_benchmark.items()}
    complete = [b for b, row in means.items() if all(value is not None for value in row)]
    used = complete or list(means)
    values = []
    for m in models:
        own = {b: value for b in used if (value := means[b][m]) is not None}
        values.append(_by_kind(table, own) if how == "kind" else _mean(list(own.values())))
    left_out = [b for b in means if b not in used]
    return Average(tuple(values), tuple(used), tuple(left_out), common=bool(complete))


def _fractions(values: Row, chance: float | None) -> Row:  # noqa: ARG001 - one signature for every scale
    """Only fractions can be averaged with each other; points cannot."""
    return values if is_fraction(values) else [None] * len(values)


def _above_chance(values: Row, chance: float | None) -> Row:
    if chance is None or chance >= 1:
        return [None] * len(values)
    return [None if value is None else chance_normalised(value, chance) for value in values]


def _ranks(values: Row, chance: float | None) -> Row:  # noqa: ARG001 - one signature for every scale
    """Rank 1 is the largest; equal values share the mean of their ranks."""
    present = [value for value in values if value is not None]

    def rank(value: float) -> float:
        above, equal = sum(other > value for other in present), sum(other == value for other in present)
        return above + (equal + 1) / 2

    return [None if value is None else rank(value) for value in values]


_SCALES: Mapping[str, Callable[[Row, float | None], Row]] = {"rank": _ranks, "chance": _above_chance}


def _by_kind(table: Table, own: Mapping[int, float]) -> float | None:
    kinds: dict[str, list[float | None]] = {}
    for benchmark, value in own.items():
        kinds.setdefault(table.benchmarks[benchmark].kind, []).append(value)
    return _mean([_mean(values) for values in kinds.values()])


def _mean(values: Row, *, strict: bool = False) -> float | None:
    present = [value for value in values if value is not None]
    if not present or (strict and len(present) < len(values)):
        return None
    return sum(present) / len(present)


def chance_of(table: Table, column: Column) -> float | None:
    """Chance of a column: that of the first result that gives one (it belongs to the dataset, not to the model)."""
    for result in table.results_of(column.benchmark).values():
        if column.metric in result.chance:
            return result.chance[column.metric]
    return None
