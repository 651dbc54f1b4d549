"""Which models can be told apart: marks for a column, rank intervals for a suite."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from eyechart.report.compare import NOT_SEPARABLE, compare_column, correct_for_many
from eyechart.report.means import AlignedRows, align, rows_of
from eyechart.report.pairing import RecordsCache
from eyechart.report.records import Floats, numbered
from eyechart.report.table import Column, ResultTable
from eyechart.report.tests import LEVEL
from eyechart.stats import not_separable_from_best, rank_intervals


@dataclass(frozen=True)
class SuiteRanking:
    """Rank intervals of models over the benchmarks that all of them have, the best mean first."""

    models: tuple[int, ...]
    means: tuple[float, ...]
    ranks: tuple[tuple[int, int], ...]
    benchmarks: tuple[int, ...]
    in_per_cent: bool
    """Whether the means are fractions."""


def paired_rows(table: ResultTable, column: Column, cache: RecordsCache) -> tuple[list[int], AlignedRows] | None:
    """Return the models that can be paired with a column's best, and their numbers turned so that larger is better.

    None if there are not two, or the metric is no mean over records.
    """
    metrics = table.metrics_in(column)
    found = {
        model: rows_of(columns, mean_of)
        for model, columns in cache.comparable(column).items()
        if model in metrics and (mean_of := metrics[model].mean_of)
    }
    aligned = align(list(found.values())) if len(found) > 1 else None
    if aligned is None:
        return None
    sign = -1.0 if table.lower_is_better(column) else 1.0
    return list(found), replace(aligned, values=sign * aligned.values)


def tied_with_best(table: ResultTable, column: Column, cache: RecordsCache) -> list[int] | None:
    """Return the models that the best of a column does not surely beat; None if there is nothing to pair."""
    paired = paired_rows(table, column, cache)
    if paired is None:
        return _tied_by_pairs(table, column, cache)
    models, rows = paired
    marks = not_separable_from_best([rows.values], [None if rows.units is None else numbered(rows.units)], LEVEL)
    return [model for model, mark in zip(models, marks, strict=True) if mark]


def _tied_by_pairs(table: ResultTable, column: Column, cache: RecordsCache) -> list[int] | None:
    """The same for a metric that is no mean: the best is compared with each."""
    leader = table.leader(column)
    found = {
        model: line
        for model in cache.comparable(column)
        if leader is not None and model != leader
        if (line := compare_column(table, column, (leader, model), cache))
    }
    if leader is None or not found:
        return None
    lines = correct_for_many(list(found.values()))
    return [leader, *(model for model, line in zip(found, lines, strict=True) if line.verdict == NOT_SEPARABLE)]


class SuiteScores:
    """Collects, benchmark by benchmark, what rank intervals over the suite need: a value per model and unit."""

    def __init__(self, table: ResultTable) -> None:
        self.table = table
        self.matrices: dict[int, tuple[tuple[int, ...], Floats]] = {}
        self.scales: dict[int, tuple[tuple[str, ...], bool]] = {}
        """Benchmark -> its metrics if they are no fractions, and whether lower is better."""

    def add(self, columns: Sequence[Column], cache: RecordsCache) -> None:
        """Take in one benchmark by its metrics, if its models can be paired by all of them."""
        paired = [paired_rows(self.table, column, cache) for column in columns]
        known = [part for part in paired if part is not None]
        if known and len(known) == len(paired) and len({tuple(models) for models, _ in known}) == 1:
            self.matrices[columns[0].benchmark] = (tuple(known[0][0]), unit_scores([rows for _, rows in known]))
            fractions = all(map(self.table.in_per_cent, columns))
            points = () if fractions else tuple(column.metric for column in columns)
            self.scales[columns[0].benchmark] = points, any(map(self.table.lower_is_better, columns))

    def ranking(self) -> SuiteRanking | None:
        """Return the rank intervals over the benchmarks that have every model that has any; None without two models.

        As in averages, fractions go before points, and what should be high is never mixed with what should be low.
        Points are only averaged with those of the same metrics.
        """
        scale = min(self.scales.values(), default=((), False))
        alike = {benchmark: rows for benchmark, (rows, _) in self.matrices.items() if self.scales[benchmark] == scale}
        models = tuple(sorted({model for rows in alike.values() for model in rows}))
        used = [benchmark for benchmark, rows in alike.items() if rows == models]
        if len(models) < 2 or not used:
            return None
        matrices = [self.matrices[benchmark][1] for benchmark in used]
        means = np.mean([matrix.mean(axis=1) for matrix in matrices], axis=0)
        ranks, order = rank_intervals(matrices, level=LEVEL), np.argsort(-means, kind="stable")
        sign = -1.0 if scale[1] else 1.0
        return SuiteRanking(
            models=tuple(models[i] for i in order),
            means=tuple((sign * means[order]).tolist()),
            ranks=tuple((ranks[i].low, ranks[i].high) for i in order),
            benchmarks=tuple(used),
            in_per_cent=not scale[0],
        )


def unit_scores(parts: Sequence[AlignedRows]) -> Floats:
    """Give each independent unit (image) a value such that their mean is the mean of the metrics, models x units.

    A unit of a metric with several records per image gets the sum over its records, scaled by images / records.
    """
    names = [part.units or part.ids for part in parts]
    place = {name: i for i, name in enumerate(dict.fromkeys(name for own in names for name in own))}
    totals = []
    for part, own in zip(parts, names, strict=True):
        index = np.array([place[name] for name in own])
        sums = [np.bincount(index, weights=row, minlength=len(place)) for row in part.values]
        totals.append(np.stack(sums) * len(place) / len(own))
    return np.asarray(np.mean(totals, axis=0))


def rank_models(table: ResultTable, cache: RecordsCache, metric: str | None = None) -> SuiteRanking | None:
    """Rank the models of a table over the benchmarks on which all of them can be paired."""
    suite = SuiteScores(table)
    for _, columns in groupby(table.columns(metric), key=lambda column: column.benchmark):
        suite.add(list(columns), cache)
    return suite.ranking()
