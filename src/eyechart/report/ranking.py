"""Which models can be told apart: marks for a column, rank intervals for a suite."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eyechart import stats
from eyechart.report.pairing import RecordsCache, common_rows, pair
from eyechart.report.records import Floats, metric_rows, unit_scores
from eyechart.report.table import Column, Table


@dataclass(frozen=True)
class Ranking:
    """Rank intervals of models over the benchmarks that all of them have."""

    models: tuple[int, ...]
    means: tuple[float, ...]
    ranks: tuple[stats.RankInterval, ...]
    benchmarks: tuple[int, ...]


def leader_of(table: Table, column: Column) -> int | None:
    """Return the model with the largest value of a column."""
    values = {m: value for m in range(len(table.models)) if (value := table.value(m, column)) is not None}
    return max(values, key=lambda m: values[m]) if values else None


def not_separable(table: Table, column: Column, cache: RecordsCache) -> dict[int, bool]:
    """For each model that can be paired with the best one: whether the best does not surely beat it.

    Empty if there is nothing to pair, or the metric is no mean over samples.
    """
    leader = leader_of(table, column)
    found = cache.comparable(column.benchmark, leader) if leader is not None else {}
    paired = pair(list(found.values())) if len(found) > 1 else None
    if paired is None:
        return {}
    parts = [metric_rows(columns, column.metric) for columns in paired.columns]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return {}
    rows = common_rows([part.rows for part in known])
    if rows.size == 0:
        return {}
    matrix = np.stack([part.values[np.isin(part.rows, rows)] for part in known])
    clusters = [paired.columns[0].cluster[i] for i in rows] if known[0].clustered else None
    return dict(zip(found, stats.not_separable_from_best([matrix], [clusters]), strict=True))


class SuiteScores:
    """Collects, benchmark by benchmark, what rank intervals over the suite need: a value per model and image."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.matrices: dict[int, tuple[tuple[int, ...], Floats]] = {}

    def add(self, benchmark: int, metrics: Sequence[str], cache: RecordsCache) -> None:
        """Take in one benchmark, if its models can be paired."""
        leader = leader_of(self.table, Column(benchmark, metrics[0])) if metrics else None
        found = cache.comparable(benchmark, leader) if leader is not None else {}
        paired = pair(list(found.values())) if len(found) > 1 else None
        if paired is None:
            return
        scores = [unit_scores(columns, metrics) for columns in paired.columns]
        rows = [values for units in scores if units is not None for values in units[1:]]
        if len(rows) == len(found):
            order = np.argsort(list(found))
            models = tuple(int(model) for model in np.array(list(found))[order])
            self.matrices[benchmark] = (models, np.stack(rows)[order])

    def ranking(self) -> Ranking | None:
        """Return the rank intervals over the benchmarks that have every model that has any; None without two models."""
        models = tuple(sorted({model for rows, _ in self.matrices.values() for model in rows}))
        used = [benchmark for benchmark, (rows, _) in self.matrices.items() if rows == models]
        if len(models) < 2 or not used:
            return None
        matrices = [self.matrices[benchmark][1] for benchmark in used]
        means = np.mean([matrix.mean(axis=1) for matrix in matrices], axis=0)
        return Ranking(models, tuple(means.tolist()), tuple(stats.rank_intervals(matrices)), tuple(used))


def rank_models(table: Table, cache: RecordsCache, metric: str | None = None) -> Ranking | None:
    """Rank the models of a table over the benchmarks on which all of them can be paired."""
    chosen: dict[int, list[str]] = {}
    for column in table.columns(metric):
        chosen.setdefault(column.benchmark, []).append(column.metric)
    suite = SuiteScores(table)
    for benchmark, metrics in chosen.items():
        suite.add(benchmark, metrics, cache)
    return suite.ranking()
