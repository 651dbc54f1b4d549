"""Averages over benchmarks that say how they are made. The page computes the same for the rows and columns shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eyechart.report.table import Column, ResultTable
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
    lower_is_better: bool = False

    def describe(self, how: str, table: ResultTable) -> str:
        """Say in a sentence how the numbers were made."""
        text = f"{AVERAGES[how][0]}: {AVERAGES[how][1]}"
        if all(value is None for value in self.values):
            return f"{text}. There is none: only fractions are averaged, and for chance only where that is known."
        if not self.common:
            return f"{text}. No benchmark has all models: each model's own are averaged, so compare with care."
        left = ", ".join(table.benchmarks[b].label for b in self.left_out)
        missing = f"; left out, as not every model has a usable value: {left}" if left else ""
        return f"{text}, over {len(self.used)} that every model has{missing}."


def average(table: ResultTable, columns: Sequence[Column], how: str = "plain") -> Average:
    """Average over benchmarks; a benchmark with several columns counts once, as their mean.

    Only fractions are averaged, and those of which less is better with each other, but never with others.
    """
    models = range(len(table.models))
    lower = {"rank": True, "chance": False}.get(how, bool(columns) and all(map(table.lower_is_better, columns)))
    by_benchmark: dict[int, list[Row]] = {}
    for column in columns:
        values, own = table.values(column), table.lower_is_better(column)
        if how == "rank":
            row = _ranks(values, own)
        elif not table.in_per_cent(column):
            row = [None] * len(values)
        elif how == "chance":
            row = _above_chance(values, table.known(column, "chance"), own)
        else:
            row = values if own == lower else [None] * len(values)
        by_benchmark.setdefault(column.benchmark, []).append(row)
    means = {b: [_mean([row[m] for row in rows], strict=True) for m in models] for b, rows in by_benchmark.items()}
    complete = [b for b, row in means.items() if all(value is not None for value in row)]
    used = complete or list(means)
    values = []
    for m in models:
        own_means = {b: value for b in used if (value := means[b][m]) is not None}
        values.append(_by_kind(table, own_means) if how == "kind" else _mean(list(own_means.values())))
    left_out = [b for b in means if b not in used]
    return Average(tuple(values), tuple(used), tuple(left_out), bool(complete), lower)


def _above_chance(values: Row, chance: float | None, lower: bool) -> Row:
    """Rescale so that chance is 0 and the best there is, 1 or 0, becomes 1."""
    if lower:
        values, chance = (
            [None if value is None else 1 - value for value in values],
            None if chance is None else 1 - chance,
        )
    if chance is None or not 0 <= chance < 1:
        return [None] * len(values)
    return [None if value is None else chance_normalised(value, chance) for value in values]


def _ranks(values: Row, lower: bool) -> Row:
    """Rank 1 is the best; equal values share the mean of their ranks."""
    present = [value for value in values if value is not None]

    def rank(value: float) -> float:
        before = sum(other < value if lower else other > value for other in present)
        return before + (sum(other == value for other in present) + 1) / 2

    return [None if value is None else rank(value) for value in values]


def _by_kind(table: ResultTable, own: Mapping[int, float]) -> float | None:
    kinds: dict[str, list[float | None]] = {}
    for benchmark, value in own.items():
        kinds.setdefault(table.benchmarks[benchmark].measures, []).append(value)
    return _mean([_mean(values) for values in kinds.values()])


def _mean(values: Row, *, strict: bool = False) -> float | None:
    present = [value for value in values if value is not None]
    if not present or (strict and len(present) < len(values)):
        return None
    return sum(present) / len(present)
