"""Paired comparison of two models on the same samples.

Differences carry an interval and a p-value of one and the same test (`eyechart.stats.paired_test`), images being the
independent units; Holm's correction over the benchmarks. Only `eyechart.stats` computes; this module pairs, refuses
and words.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from eyechart import stats
from eyechart.errors import UsageError
from eyechart.report.pairing import Paired, RecordsCache, common_rows, differences, pair
from eyechart.report.records import Columns, Floats, metric_rows
from eyechart.report.table import Benchmark, Table
from eyechart.results import Result
from eyechart.stats.significance import discordant

LEVEL = 0.95
POWER = 0.8
UNKNOWN = stats.Interval(-1.0, 1.0)
"""All that is known of a difference where there are too few samples for an interval."""


@dataclass(frozen=True)
class Difference:
    """How much better the second model is than the first on one metric of one benchmark."""

    benchmark: Benchmark
    metric: str
    first: float
    second: float
    difference: float
    low: float
    high: float
    p_value: float
    test: str
    n: int
    units: int
    """Independent units: images."""
    only_first: int | None = None
    only_second: int | None = None
    detectable: float | None = None
    """The smallest true difference that this many samples find four times out of five."""
    unmatched: int = 0
    p_holm: float = 1.0

    @property
    def verdict(self) -> str:
        """Say it in a word, after the correction for many benchmarks."""
        if self.p_holm >= 1 - LEVEL:
            return "not separable"
        return "better" if self.difference > 0 else "worse"


@dataclass(frozen=True)
class Comparison:
    """All differences between two rows of a table."""

    first: int
    second: int
    lines: tuple[Difference, ...]


def compare(
    table: Table,
    first: int,
    second: int,
    *,
    metric: str | None = None,
    allow: Collection[str] = (),
    cache: RecordsCache | None = None,
) -> Comparison:
    """Compare two rows of a table on every benchmark that both have.

    Args:
        table: The results.
        first: Row of the baseline.
        second: Row of the other model.
        metric: This metric only; else each benchmark's main ones.
        allow: Aspects (see `eyechart.report.pairing.ASPECTS`) that may differ on purpose.
        cache: Where records already read are kept.

    Raises:
        UsageError: If dataset, split, prompts or task version differ, or nothing can be compared.
    """
    cache = cache or RecordsCache(table)
    shared = [b for b in range(len(table.benchmarks)) if (first, b) in table.cells and (second, b) in table.cells]
    _refuse_different(table, first, second, shared, allow)
    lines = []
    for column in table.columns(metric):
        if column.benchmark not in shared:
            continue
        pairs = [cache.columns(row, column.benchmark) for row in (first, second)]
        line = compare_columns(table.benchmarks[column.benchmark], column.metric, pairs[0], pairs[1])
        if line is not None:
            lines.append(line)
    if not lines:
        raise UsageError(
            f"{table.models[first].label} and {table.models[second].label} have no samples in common.",
            advice="Both need results with per-sample records of the same benchmark; other tools' results have none.",
        )
    return Comparison(first, second, correct_for_many(lines))


def correct_for_many(lines: Sequence[Difference]) -> tuple[Difference, ...]:
    """Adjust the p-values by Holm's method over all lines."""
    adjusted = stats.holm([line.p_value for line in lines])
    return tuple(replace(line, p_holm=p) for line, p in zip(lines, adjusted, strict=True))


def compare_columns(
    benchmark: Benchmark, metric: str, first: Columns | None, second: Columns | None
) -> Difference | None:
    """Compare two models' records by one metric; None if they cannot be paired or the metric is not known here."""
    if first is None or second is None or first.form != second.form:
        return None
    paired = pair([first, second])
    if paired is None:
        return None
    if metric == "mean_average_precision" and first.form == "labels":
        return _compare_precision(benchmark, metric, paired)
    parts = [metric_rows(columns, metric) for columns in paired.columns]
    if parts[0] is None or parts[1] is None:
        return None
    rows = common_rows([parts[0].rows, parts[1].rows])
    if rows.size == 0:
        return None
    a, b = (part.values[np.isin(part.rows, rows)] for part in parts if part is not None)
    clusters = [paired.columns[0].cluster[i] for i in rows] if parts[0].clustered else None
    return _difference(benchmark, metric, a, b, clusters=clusters, binary=parts[0].binary, unmatched=paired.unmatched)


def _difference(
    benchmark: Benchmark,
    metric: str,
    a: Floats,
    b: Floats,
    *,
    clusters: Sequence[str] | None,
    binary: bool,
    unmatched: int,
) -> Difference:
    found = stats.paired_test(b, a, clusters, level=LEVEL)
    only_first = only_second = None
    interval = found.interval or UNKNOWN
    detectable = _detectable(found.interval)
    if binary:
        only_first, only_second = discordant((a > 0).tolist(), (b > 0).tolist())
        if clusters is None:
            disagreement = (only_first + only_second) / a.size
            detectable = stats.smallest_detectable_difference(a.size, disagreement, 1 - LEVEL, POWER)
    return Difference(
        benchmark=benchmark,
        metric=metric,
        first=float(a.mean()),
        second=float(b.mean()),
        difference=found.difference,
        low=interval.low,
        high=interval.high,
        p_value=found.p_value,
        test=found.test,
        n=found.n,
        units=found.n_clusters,
        only_first=only_first,
        only_second=only_second,
        detectable=detectable,
        unmatched=unmatched,
    )


def _compare_precision(benchmark: Benchmark, metric: str, paired: Paired) -> Difference:
    """Mean average precision is no mean over images: each is left out in turn."""
    first, second = paired.columns
    found = stats.paired_average_precision(second.scores, first.scores, first.present, level=LEVEL)
    interval = found.interval or UNKNOWN
    values = [stats.mean_average_precision(columns.scores, columns.present) for columns in paired.columns]
    return Difference(
        benchmark=benchmark,
        metric=metric,
        first=values[0],
        second=values[1],
        difference=found.difference,
        low=interval.low,
        high=interval.high,
        p_value=found.p_value,
        test=found.test,
        n=found.n,
        units=found.n_clusters,
        detectable=_detectable(found.interval),
        unmatched=paired.unmatched,
    )


def _detectable(interval: stats.Interval | None) -> float | None:
    """The smallest detectable difference that goes with an interval's width."""
    if interval is None:
        return None
    z_level, z_power = stats.normal_quantile(0.5 + LEVEL / 2), stats.normal_quantile(POWER)
    return interval.half_width * (z_level + z_power) / z_level


def _refuse_different(table: Table, first: int, second: int, shared: Sequence[int], allow: Collection[str]) -> None:
    """Refuse results that are of something else, and say of what."""
    if not shared:
        names = [_benchmark_names(table, row) for row in (first, second)]
        raise UsageError(
            f"{table.models[first].label} and {table.models[second].label} have no benchmark in common: "
            f"{names[0]} against {names[1]}.",
            advice="Dataset, task and language must be the same.",
        )
    found = []
    for benchmark in shared:
        results: list[Result] = [table.cells[row, benchmark].result for row in (first, second)]
        aspects = [aspect for aspect in differences(results[0], results[1]) if aspect not in allow]
        if aspects:
            found.append(f"{table.benchmarks[benchmark].label}: {', '.join(aspects)}")
    if found:
        raise UsageError(
            "These results cannot be compared, as they differ in\n  " + "\n  ".join(found),
            advice="Run both with the same data and prompts, or say what differs on purpose: --allow-different prompts",
        )


def _benchmark_names(table: Table, row: int) -> str:
    names = [table.benchmarks[b].label for m, b in sorted(table.cells) if m == row]
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
