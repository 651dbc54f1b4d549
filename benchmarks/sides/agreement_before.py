"""Agreement of judges as it was before: intervals by the bootstrap."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eyechart.metrics.vectors import Floats
from eyechart.stats.intervals import FEWEST_UNITS, Interval, cluster_index

DRAWS = 1000
_BLOCK = 100
"""Draws at a time: what bounds the memory."""


@dataclass(frozen=True)
class Agreement:
    """How far verdicts agree beyond chance."""

    value: float | None
    interval: Interval | None
    n: int
    """Answers that two or more verdicts were read for."""


def cohen_kappa(
    first: ArrayLike, second: ArrayLike, clusters: ArrayLike | None = None, *, graded: bool = False
) -> Agreement:
    """Cohen's kappa of two judges (sklearn's ``cohen_kappa_score``); NaN is a verdict that is missing.

    Args:
        first: One judge's verdicts, as numbers.
        second: The other's, on the same answers.
        clusters: What answers share that are not independent.
        graded: Verdicts are grades: a disagreement weighs as much as the square of the difference. Else any
            disagreement weighs the same.
    """
    one, two = np.asarray(first, np.float64), np.asarray(second, np.float64)
    both = ~(np.isnan(one) | np.isnan(two))
    one, two = one[both], two[both]
    levels, codes = np.unique(np.concatenate([one, two]), return_inverse=True)
    count, n = levels.size, one.size
    cells = np.zeros((n, count * count))
    cells[np.arange(n), codes[:n] * count + codes[n:]] = 1
    distance = _distances(levels, graded=graded)

    def kappa(sums: Floats) -> Floats:
        table = sums.reshape(-1, count, count)
        total = table.sum(axis=(1, 2))
        expected = np.einsum("bi,ij,bj->b", table.sum(axis=2), distance, table.sum(axis=1)) / total
        return np.asarray(1 - np.einsum("bij,ij->b", table, distance) / expected)

    return _with_interval(cells, kappa, clusters if clusters is None else np.asarray(clusters)[both])


def krippendorff_alpha(verdicts: ArrayLike, clusters: ArrayLike | None = None, *, graded: bool = False) -> Agreement:
    """Krippendorff's alpha of judges (rows) on answers (columns); NaN is a verdict that is missing.

    It is the nominal alpha, or with ``graded`` that of an interval scale.
    """
    table = np.asarray(verdicts, np.float64)
    present = ~np.isnan(table)
    pairable = present.sum(axis=0) >= 2
    table, present = table[:, pairable], present[:, pairable]
    levels = np.unique(table[present])
    counts = np.stack([(table == level).sum(axis=0) for level in levels], axis=1) if levels.size else np.empty((0, 0))
    counts = counts.astype(np.float64)
    distance = _distances(levels, graded=graded)
    apart = np.einsum("ui,ij,uj->u", counts, distance, counts) / np.maximum(counts.sum(axis=1) - 1, 1)

    def alpha(sums: Floats) -> Floats:
        seen, totals = sums[:, 0], sums[:, 1:]
        expected = np.einsum("bi,ij,bj->b", totals, distance, totals) / (totals.sum(axis=1) - 1)
        return np.asarray(1 - seen / expected)

    named = clusters if clusters is None else np.asarray(clusters)[pairable]
    return _with_interval(np.column_stack([apart, counts]), alpha, named)


def _distances(levels: Floats, *, graded: bool) -> Floats:
    apart = levels[:, None] - levels[None, :]
    return apart**2 if graded else (apart != 0).astype(np.float64)


def _with_interval(rows: Floats, statistic: Callable[[Floats], Floats], clusters: ArrayLike | None) -> Agreement:
    """Compute a statistic of the sums of rows, and its percentiles over draws of clusters with replacement."""
    n = rows.shape[0]
    if n == 0:
        return Agreement(None, None, 0)
    index, sizes = cluster_index(clusters, n)
    sums = np.zeros((sizes.size, rows.shape[1]))
    np.add.at(sums, index, rows)
    with np.errstate(invalid="ignore", divide="ignore"), warnings.catch_warnings():
        value = float(statistic(sums.sum(axis=0, keepdims=True))[0])
        if not np.isfinite(value):
            return Agreement(None, None, n)
        drawn = _draws(sums, statistic)
    if sizes.size < FEWEST_UNITS or not drawn.size:
        return Agreement(value, None, n)
    low, high = np.percentile(drawn, [2.5, 97.5])
    return Agreement(value, Interval(min(float(low), value), max(float(high), value)), n)


def _draws(sums: Floats, statistic: Callable[[Floats], Floats]) -> NDArray[np.float64]:
    """Return the statistic of many draws; one in which every verdict is the same is left out, as it has none."""
    rng, clusters = np.random.default_rng(0), sums.shape[0]
    found = []
    for _ in range(DRAWS // _BLOCK):
        times = rng.multinomial(clusters, np.full(clusters, 1 / clusters), size=_BLOCK)
        found.append(statistic(times @ sums))
    values = np.concatenate(found)
    return values[np.isfinite(values)]
