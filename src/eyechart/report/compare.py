"""Paired comparison of two models on the same samples: what is compared, what is refused, and the verdicts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from eyechart.errors import UsageError
from eyechart.report.means import align, count_left_out, in_common, rows_of
from eyechart.report.pairing import UNPAIRABLE, RecordsCache, differences
from eyechart.report.records import RecordColumns
from eyechart.report.table import BenchmarkColumn, Column, ResultTable, lost_samples
from eyechart.report.tests import FUNCTIONS, LEVEL, PairedOutcome, paired_test
from eyechart.stats import holm
from eyechart.types import Metric

NOT_SEPARABLE = "not separable"


@dataclass(frozen=True)
class Difference:
    """How much larger the second model's number is than the first one's, on one metric of one benchmark."""

    benchmark: BenchmarkColumn
    metric: str
    first: float
    second: float
    paired: PairedOutcome
    left_out: int
    """Samples that only one of the two has a number for."""
    lower_is_better: bool = False
    fewer: tuple[str, str] = ("", "")
    """Samples that the numbers of the first and of the second are not about: ``3 failed``."""
    p_holm: float = 1.0

    @property
    def verdict(self) -> str:
        """Say it in a word, after the correction for many benchmarks."""
        if self.p_holm >= 1 - LEVEL:
            return NOT_SEPARABLE
        return "better" if (self.paired.difference > 0) != self.lower_is_better else "worse"


@dataclass(frozen=True)
class PairwiseComparison:
    """All differences between two rows of a table."""

    first: int
    second: int
    lines: tuple[Difference, ...]
    unpaired: tuple[str, ...] = ()
    """Benchmarks that both have, but that cannot be compared sample by sample."""


def compare(
    table: ResultTable,
    first: int,
    second: int,
    *,
    metric: str | None = None,
    allow: Collection[str] = (),
    cache: RecordsCache | None = None,
) -> PairwiseComparison:
    """Compare two rows of a table on every benchmark that both have.

    Args:
        table: The results.
        first: Row of the baseline.
        second: Row of the other model.
        metric: This metric only; else each benchmark's primary ones.
        allow: Aspects (see `eyechart.report.pairing.ASPECTS`) that may differ on purpose.
        cache: Where records already read are kept.

    Raises:
        UsageError: If dataset, split, prompts, judge or task version differ, or nothing can be compared.
        ResultError: If records, or metrics that are means of them, were changed after the run.
    """
    cache = cache or RecordsCache(table)
    shared = [b for b in range(len(table.benchmarks)) if (first, b) in table.cells and (second, b) in table.cells]
    _refuse_different(table, first, second, shared, allow)
    columns = [column for column in table.columns(metric) if column.benchmark in shared]
    if not columns:
        raise UsageError(f"No result has the metric {metric!r}.", advice="Leave --metric out for the primary ones.")
    lines = [line for column in columns if (line := compare_column(table, column, (first, second), cache))]
    if not lines:
        names = sorted({column.metric for column in columns})
        raise UsageError(
            f"{table.models[first].label} and {table.models[second].label} have no samples in common that "
            f"{', '.join(names)} is computed from.",
            advice="Both need records of the same samples, and a metric that is computed sample by sample "
            "(a median and an error of calibration are not).",
        )
    compared = {line.benchmark for line in lines}
    unpaired = [table.benchmarks[b].label for b in shared if table.benchmarks[b] not in compared]
    return PairwiseComparison(first, second, correct_for_many(lines), () if metric else tuple(unpaired))


def correct_for_many(lines: Sequence[Difference]) -> tuple[Difference, ...]:
    """Adjust the p-values by Holm's method over all lines."""
    adjusted = holm([line.paired.p_value for line in lines])
    return tuple(replace(line, p_holm=p) for line, p in zip(lines, adjusted, strict=True))


def compare_column(table: ResultTable, column: Column, pair: tuple[int, int], cache: RecordsCache) -> Difference | None:
    """Compare two models' records by one metric; None if they cannot be paired or the metric is not made of them."""
    found = table.metrics_in(column)
    records = {model: cache.columns(model, column.benchmark) for model in pair}
    sides = [(found[model], columns) for model, columns in records.items() if columns and model in found]
    paired = (_by_means(sides) or _by_function(sides)) if len(sides) == len(pair) else None
    if paired is None:
        return None
    fewer = [", ".join(lost_samples(table.cells[model, column.benchmark].result)) for model in pair]
    return Difference(
        table.benchmarks[column.benchmark],
        column.metric,
        *paired,
        lower_is_better=table.lower_is_better(column),
        fewer=(fewer[0], fewer[1]),
    )


Side = tuple[Metric, RecordColumns]
Paired = tuple[float, float, PairedOutcome, int]
"""Both values on the common samples, the test, and how many samples are not common."""


def _by_means(sides: Sequence[Side]) -> Paired | None:
    rows = [rows_of(columns, metric.mean_of) for metric, columns in sides if metric.mean_of]
    aligned = align(rows) if len(rows) == len(sides) else None
    if aligned is None:
        return None
    first, second = aligned.values
    test = paired_test(first, second, aligned.units)
    return float(first.mean()), float(second.mean()), test, aligned.left_out


def _by_function(sides: Sequence[Side]) -> Paired | None:
    (metric, a), (other, b) = sides
    function = FUNCTIONS.get(metric.function)
    ids, (of_a, of_b) = in_common([a.ids, b.ids])
    if function is None or other.function != metric.function or not ids:
        return None
    first, second, present = a.scores[of_a], b.scores[of_b], a.present[of_a]
    test = function.compare(first, second, present)
    left_out = count_left_out([a.ids, b.ids], ids)
    return function.value(first, present), function.value(second, present), test, left_out


def _refuse_different(
    table: ResultTable, first: int, second: int, shared: Sequence[int], allow: Collection[str]
) -> None:
    """Refuse results that are of something else, and say of what."""
    if not shared:
        names = [_benchmark_names(table, row) for row in (first, second)]
        raise UsageError(
            f"{table.models[first].label} and {table.models[second].label} have no benchmark in common: "
            f"{names[0]} against {names[1]}.",
            advice="Dataset, task and language must be the same.",
        )
    found, every = [], dict[str, None]()
    for benchmark in shared:
        results = table.by_benchmark[benchmark]
        aspects = [aspect for aspect in differences(results[first], results[second]) if aspect not in allow]
        if aspects:
            found.append(f"{table.benchmarks[benchmark].label}: {', '.join(aspects)}")
            every.update(dict.fromkeys(aspects))
    if found:
        flag = "--allow-different " + " ".join(f"'{name}'" if " " in name else name for name in every)
        fixed = not UNPAIRABLE.isdisjoint(every)
        raise UsageError(
            "These results cannot be compared, as they differ in\n  " + "\n  ".join(found),
            advice="Run both with the same data and settings"
            + ("." if fixed else f", or say that it is meant: {flag}"),
        )


def _benchmark_names(table: ResultTable, row: int) -> str:
    names = [table.benchmarks[b].label for m, b in sorted(table.cells) if m == row]
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
