"""Which models can be told apart: rank intervals, and those not separable from the best."""

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eyechart.stats.bootstrap import sum_by_cluster
from eyechart.stats.intervals import FloatArray
from eyechart.stats.quantiles import normal_cdf
from eyechart.stats.significance import holm


class RankInterval(NamedTuple):
    """The ranks a model may have: 1 is the best."""

    low: int
    high: int


def rank_intervals(
    benchmarks: Sequence[ArrayLike], clusters: Sequence[ArrayLike | None] | None = None, level: float = 0.95
) -> list[RankInterval]:
    """Rank intervals of models over a suite, by the plain mean of their benchmark means.

    `benchmarks` has one matrix for each benchmark, models x samples (each its own samples, the models
    always in the same order); `clusters`, if given, one list of sample clusters, or None, for each. A
    model's rank lies between 1 + (models surely better) and M - (models surely worse), from paired tests of
    all pairs under Holm's correction (Klein, Wright and Wieczorek 2020): all intervals hold together with
    this confidence, usually more. The suite is taken as given: only its samples are random.
    """
    z = _pairwise_z(benchmarks, clusters)
    models = len(z)
    pairs = list(combinations(range(models), 2))
    adjusted = holm([2 * normal_cdf(-abs(z[i, j])) for i, j in pairs])
    better, worse = [0] * models, [0] * models
    for (i, j), p_value in zip(pairs, adjusted, strict=True):
        if p_value < 1 - level:
            winner, loser = (i, j) if z[i, j] > 0 else (j, i)
            worse[winner] += 1
            better[loser] += 1
    return [RankInterval(1 + better[i], models - worse[i]) for i in range(models)]


def not_separable_from_best(
    benchmarks: Sequence[ArrayLike], clusters: Sequence[ArrayLike | None] | None = None, level: float = 0.95
) -> list[bool]:
    """Mark the models that the best one does not surely beat; arguments as for `rank_intervals`.

    One-sided paired tests of the best observed mean against each other model under Holm's correction: the
    truly best model is among the marked with at least this confidence.
    """
    matrices = [_scores(matrix) for matrix in benchmarks]
    z = _pairwise_z(benchmarks, clusters)
    best = int(np.argmax(np.mean([matrix.mean(axis=1) for matrix in matrices], axis=0)))
    others = [i for i in range(len(z)) if i != best]
    adjusted = dict(zip(others, holm([normal_cdf(-z[best, i]) for i in others]), strict=True))
    return [i == best or adjusted[i] >= 1 - level for i in range(len(z))]


def _pairwise_z(benchmarks: Sequence[ArrayLike], clusters: Sequence[ArrayLike | None] | None) -> NDArray[np.float64]:
    """Paired score statistics of all pairs of models: positive where the row's model is better.

    The variance is that under equality, the sum of squared differences (McNemar's (b - c)^2 / (b + c) for
    rights and wrongs), which one matrix of inner products gives for all pairs.
    """
    matrices = [_scores(matrix) for matrix in benchmarks]
    if not matrices or len({len(matrix) for matrix in matrices}) > 1:
        raise ValueError("need at least one benchmark, each with a row for every model")
    groups = [None] * len(matrices) if clusters is None else list(clusters)
    models = len(matrices[0])
    gains, variances = np.zeros((models, models)), np.zeros((models, models))
    for matrix, group in zip(matrices, groups, strict=True):
        n = matrix.shape[1]
        sums = np.stack([sum_by_cluster(row, group)[0] for row in matrix])
        # Centring each cluster changes no difference and keeps the cancellation below harmless.
        sums -= sums.mean(axis=0)
        products = sums @ sums.T
        norms = np.diag(products)
        totals = sums.sum(axis=1)
        gains += (totals[:, None] - totals[None, :]) / n
        variances += np.maximum(norms[:, None] + norms[None, :] - 2 * products, 0) / n**2
    negligible = variances <= 1e-12 * variances.max(initial=0)
    spread = np.sqrt(np.where(negligible, 1.0, variances))
    return np.where(negligible, 0.0, gains / spread)


def _scores(matrix: ArrayLike) -> FloatArray:
    scores = np.asarray(matrix, dtype=np.float64)
    if scores.ndim != 2 or 0 in scores.shape or not np.isfinite(scores).all():
        raise ValueError(f"scores are a finite matrix, models x samples, not of shape {scores.shape}")
    return scores
