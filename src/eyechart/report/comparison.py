"""Paired comparison of models on the same samples: differences, marks for a column, and rank intervals of a suite."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice

import numpy as np

from eyechart.errors import UsageError
from eyechart.messages import UserMessage
from eyechart.report.paired_records import (
    LEVEL,
    UNPAIRABLE,
    AlignedRows,
    PairedOutcome,
    RecordsCache,
    align,
    compare_records,
    differences,
    in_common,
    rows_of,
)
from eyechart.report.record_columns import Floats, numbered
from eyechart.report.result_table import BenchmarkColumn, Column, ResultTable, lost_samples
from eyechart.stats import Interval, PairedTest, holm, p_values_against_best, paired_suite_test, rank_intervals


@dataclass(frozen=True)
class Difference:
    """Difference of the second model from the first, on one metric of one benchmark."""

    benchmark: BenchmarkColumn
    metric: str
    first: float
    second: float
    paired: PairedOutcome
    left_out: int
    """Samples for which only one of the two has a value."""
    lower_is_better: bool = False
    fewer: tuple[str, str] = ("", "")
    """Samples missing from the values of the first and of the second model: ``3 failed``."""
    p_holm: float | None = None

    @property
    def verdict(self) -> str:
        """``better``, ``worse`` or ``not separable``, after correction for multiple tests; else ``not tested``."""
        if self.p_holm is None:
            return "not tested"
        if self.p_holm >= 1 - LEVEL:
            return "not separable"
        return "better" if (self.paired.difference > 0) != self.lower_is_better else "worse"


@dataclass(frozen=True)
class PairwiseComparison:
    """All differences between two rows of a table."""

    first: int
    second: int
    lines: tuple[Difference, ...]
    unpaired: tuple[str, ...] = ()
    """Benchmarks of both models that cannot be compared sample by sample."""
    tests: int = 0
    """Number of tests over which the p-values are corrected: those of all models that one baseline is compared with."""


def compare(
    cache: RecordsCache, first: int, second: int, *, metric: str | None = None, allow: Collection[str] = ()
) -> PairwiseComparison:
    """Compare two rows of the cache's table, the baseline first, on every benchmark that both have.

    By default each benchmark's primary metrics are compared. ``allow`` lists aspects that may differ on purpose (see
    `eyechart.report.paired_records.ASPECTS`).

    Raises:
        UsageError: If dataset, split, prompts, judge or task version differ, or nothing can be compared.
        ResultError: If records, or metrics that are means of them, were modified after the run.
    """
    table = cache.table
    shared = [b for b in range(len(table.benchmarks)) if (first, b) in table.cells and (second, b) in table.cells]
    _refuse_different(table, first, second, shared, allow)
    columns = [column for column in table.columns(metric) if column.benchmark in shared]
    if not columns:
        raise UsageError(
            "No result has the metric {metric!r}.", advice="Omit {--metric} to compare primary metrics.", metric=metric
        )
    lines = [line for column in columns if (line := compare_column(cache, column, (first, second)))]
    if not lines:
        raise UsageError(
            "{first} and {second} have no samples in common for {list}.",
            advice="Both need records of the same samples and a per-sample metric (not a median or a calibration "
            "error).",
            first=table.models[first].label,
            second=table.models[second].label,
            list=", ".join(sorted({column.metric for column in columns})),
        )
    compared = {line.benchmark for line in lines}
    unpaired = [table.benchmarks[b].label for b in shared if table.benchmarks[b] not in compared]
    found = PairwiseComparison(first, second, tuple(lines), () if metric else tuple(unpaired))
    return correct_jointly([found])[0]


def correct_jointly(comparisons: Sequence[PairwiseComparison]) -> list[PairwiseComparison]:
    """Adjust the p-values by Holm's method over all lines of all comparisons with one baseline."""
    corrected = iter(correct_for_many([line for one in comparisons for line in one.lines]))
    tests = sum(line.paired.p_value is not None for one in comparisons for line in one.lines)
    return [replace(one, lines=tuple(islice(corrected, len(one.lines))), tests=tests) for one in comparisons]


def correct_for_many(lines: Sequence[Difference]) -> tuple[Difference, ...]:
    """Adjust the p-values by Holm's method over all lines that have one."""
    adjusted = iter(holm([line.paired.p_value for line in lines if line.paired.p_value is not None]))
    return tuple(replace(line, p_holm=None if line.paired.p_value is None else next(adjusted)) for line in lines)


def compare_column(cache: RecordsCache, column: Column, pair: tuple[int, int]) -> Difference | None:
    """Compare two models' records by one metric; None if they cannot be paired or do not determine the metric."""
    table = cache.table
    found = table.metrics_in(column)
    records = {model: cache.columns(model, column.benchmark) for model in pair}
    sides = [(found[model], columns) for model, columns in records.items() if columns and model in found]
    if len(sides) < len(pair):
        return None
    tested = compare_records(*sides)
    if tested is None:
        return None
    values, test, left_out = tested
    first, second = (", ".join(lost_samples(table.cells[model, column.benchmark].result)) for model in pair)
    benchmark, lower = table.benchmarks[column.benchmark], table.lower_is_better(column)
    return Difference(benchmark, column.metric, *values, test, left_out, lower, (first, second))


def _refuse_different(
    table: ResultTable, first: int, second: int, shared: Sequence[int], allow: Collection[str]
) -> None:
    """Raise if the results are not comparable, naming the aspects that differ."""
    if not shared:
        rows = [[table.benchmarks[b].label for m, b in sorted(table.cells) if m == row] for row in (first, second)]
        a, b = (", ".join([*own[:3], *(["..."] if len(own) > 3 else [])]) for own in rows)
        raise UsageError(
            "{first} and {second} have no benchmark in common: {a} against {b}.",
            advice="Dataset, task and language must be the same.",
            first=table.models[first].label,
            second=table.models[second].label,
            a=a,
            b=b,
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
        raise UsageError(
            "These results cannot be compared because they differ in\n  {joined}",
            advice=UserMessage("Run both with the same data and settings, or allow the differences: {flag}", flag=flag)
            if UNPAIRABLE.isdisjoint(every)
            else "Run both with the same data and settings.",
            joined="\n  ".join(found),
        )


@dataclass(frozen=True)
class SuiteRanking:
    """Rank intervals of models over their common benchmarks, the best mean first."""

    models: tuple[int, ...]
    means: tuple[float, ...]
    ranks: tuple[tuple[int, int], ...]
    benchmarks: tuple[int, ...]
    in_per_cent: bool
    """Whether the means are fractions."""
    lead: PairedTest
    """The first model's advantage over the second, in the direction of better."""


def paired_rows(cache: RecordsCache, column: Column) -> tuple[list[int], AlignedRows] | None:
    """Return the models that can be paired with a column's best, and their values, negated if lower is better.

    None if there are fewer than two, or the metric is not a mean over records of one classifier (but of few shots).
    """
    metrics = cache.table.metrics_in(column)
    found = {
        model: rows_of(columns, mean_of)
        for model, columns in cache.comparable(column).items()
        if model in metrics and (mean_of := metrics[model].mean_of)
    }
    aligned = align(list(found.values())) if len(found) > 1 else None
    if aligned is None or aligned.draws is not None:
        return None
    sign = -1.0 if cache.table.lower_is_better(column) else 1.0
    return list(found), replace(aligned, values=sign * aligned.values)


def against_best(cache: RecordsCache, column: Column) -> tuple[int, dict[int, float]] | None:
    """Return the best of a column, and the p-value of the best against each other model that can be paired with it.

    None if none can be paired. A model with too few training draws for a p-value has 1.
    """
    paired = paired_rows(cache, column)
    if paired is not None:
        models, rows = paired
        best, found = p_values_against_best(rows.values, None if rows.units is None else numbered(rows.units), LEVEL)
        return models[best], {models[i]: p_value for i, p_value in found.items()}
    leader = cache.table.leader(column)  # the metric is not a mean, or depends on training draws
    lines = {
        model: line.paired.p_value
        for model in cache.comparable(column)
        if leader is not None and model != leader
        if (line := compare_column(cache, column, (leader, model)))
    }
    if leader is None or not lines:
        return None
    return leader, {model: 1.0 if p_value is None else p_value for model, p_value in lines.items()}


UnitValues = tuple[tuple[str, ...], Floats]
"""Names of units or records, and values of models for them: models x names."""


class SuiteScores:
    """Collects, benchmark by benchmark, the inputs of rank intervals over the suite: a value per model and unit."""

    def __init__(self, cache: RecordsCache) -> None:
        self.cache = cache
        self.by_scale: dict[tuple[tuple[str, ...], bool], dict[int, tuple[list[int], dict[str, UnitValues]]]] = {}
        """Metrics if they are not fractions, and whether lower is better -> benchmark -> models and their values by
        metric."""

    def add(self, columns: Sequence[Column]) -> None:
        """Add one benchmark by its metrics, if its models can be paired by all of them."""
        paired = [paired_rows(self.cache, column) for column in columns]
        known = [part for part in paired if part is not None]
        if known and len(known) == len(paired) and all(models == known[0][0] for models, _ in known):
            table = self.cache.table
            points = () if all(map(table.in_per_cent, columns)) else tuple(column.metric for column in columns)
            benchmarks = self.by_scale.setdefault((points, any(map(table.lower_is_better, columns))), {})
            named = zip(columns, known, strict=True)
            scores = {
                column.metric: unit_scores([(rows.units or rows.ids, rows.values)]) for column, (_, rows) in named
            }
            benchmarks[columns[0].benchmark] = known[0][0], scores

    def ranking(self) -> SuiteRanking | None:
        """Return the rank intervals over the benchmarks that cover all models; None for fewer than two models.

        As in averages, fractions take precedence over points, and metrics to maximise are never mixed with metrics to
        minimise. Points are only averaged with those of the same metrics. Benchmarks of one dataset, such as two
        languages, share their images: their values are added up by image.
        """
        points, lower = scale = min(self.by_scale, default=((), False))
        alike = self.by_scale.get(scale, {})
        models = sorted({model for own, _ in alike.values() for model in own})
        used = {benchmark: parts for benchmark, (own, parts) in alike.items() if own == models}
        if len(models) < 2 or not used:
            return None
        datasets: dict[str, list[UnitValues]] = {}
        for benchmark, parts in used.items():
            dataset = self.cache.table.benchmarks[benchmark].dataset
            datasets.setdefault(dataset, []).append(unit_scores([*parts.values()]))
        matrices = [unit_scores(parts)[1] for parts in datasets.values()]
        weights = [len(parts) / len(used) for parts in datasets.values()]
        means = np.sum([w * matrix.mean(axis=1) for w, matrix in zip(weights, matrices, strict=True)], axis=0)
        ranks, order = rank_intervals(matrices, None, LEVEL, weights), np.argsort(-means, kind="stable")
        sign = -1.0 if lower else 1.0
        return SuiteRanking(
            models=tuple(models[i] for i in order),
            means=tuple((sign * means[order]).tolist()),
            ranks=tuple((ranks[i].low, ranks[i].high) for i in order),
            benchmarks=tuple(used),
            in_per_cent=not points,
            lead=_lead([matrix[order[:2]] for matrix in matrices], weights),
        )

    def correlations(self, columns: Sequence[Column]) -> list[Floats]:
        """Estimate for each model the correlation of its metrics: 0 between datasets, 1 where it is unknown."""
        table = self.cache.table
        known = {b: found for benchmarks in self.by_scale.values() for b, found in benchmarks.items()}
        matrices = [np.eye(len(columns)) for _ in table.models]
        for (i, one), (j, other) in combinations(enumerate(columns), 2):
            if table.benchmarks[one.benchmark].dataset != table.benchmarks[other.benchmark].dataset:
                continue
            for matrix in matrices:
                matrix[i, j] = matrix[j, i] = 1.0
            if one.benchmark in known and other.benchmark in known:
                (models, parts), (others, other_parts) = known[one.benchmark], known[other.benchmark]
                (names, values), (other_names, other_values) = parts[one.metric], other_parts[other.metric]
                _, places, _ = in_common([names, other_names])
                for model in set(models) & set(others):
                    a, b = values[models.index(model)], other_values[others.index(model)]
                    a, b = a - a.mean(), b - b.mean()
                    norm = float(np.sqrt((a @ a) * (b @ b)))
                    found = float(a[places[0]] @ b[places[1]]) / norm if norm else 0.0
                    matrices[model][i, j] = matrices[model][j, i] = found
        return matrices


def _lead(matrices: Sequence[Floats], weights: Sequence[float]) -> PairedTest:
    scale = max(1.0, *(float(np.abs(matrix).max()) for matrix in matrices))  # the test expects fractions
    found = paired_suite_test([matrix / scale for matrix in matrices], weights, level=LEVEL)
    ends = found.interval and Interval(scale * found.interval.low, scale * found.interval.high)
    spread = None if found.spread is None else scale * found.spread
    return found._replace(difference=round(scale * found.difference, 12), interval=ends, spread=spread)


def unit_scores(parts: Sequence[UnitValues]) -> UnitValues:
    """Compute a value per independent unit (image) whose mean is the mean of the metrics, models x units.

    For a metric with several records per image, a unit's value is the sum over its records, scaled by images / records.
    """
    place = {name: i for i, name in enumerate(dict.fromkeys(name for own, _ in parts for name in own))}
    totals = []
    for own, values in parts:
        index = np.array([place[name] for name in own])
        sums = [np.bincount(index, weights=row, minlength=len(place)) for row in values]
        totals.append(np.stack(sums) * len(place) / len(own))
    return tuple(place), np.asarray(np.mean(totals, axis=0))
