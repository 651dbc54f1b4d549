"""Which models can be told apart: rank intervals, and those not separable from the best."""

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from eyechart.metrics.vectors import Floats
from eyechart.stats.intervals import cluster_index
from eyechart.stats.paired import score_test
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
    model's rank lies between 1 + (models surely better) and M - (models surely worse), from `paired_test` of
    all pairs under Holm's correction (Klein, Wright and Wieczorek 2020): all intervals hold together with
    this confidence, usually more. The suite is taken as given: only its samples are random.
    """
    suite = _Suite(benchmarks, clusters)
    models = len(suite.means)
    pairs = list(combinations(range(models), 2))
    adjusted = holm([suite.p_value(i, j) for i, j in pairs])
    better, worse = [0] * models, [0] * models
    for (i, j), p_value in zip(pairs, adjusted, strict=True):
        if p_value < 1 - level:
            winner, loser = (i, j) if suite.means[i] > suite.means[j] else (j, i)
            worse[winner] += 1
            better[loser] += 1
    return [RankInterval(1 + better[i], models - worse[i]) for i in range(models)]


def not_separable_from_best(
    benchmarks: Sequence[ArrayLike], clusters: Sequence[ArrayLike | None] | None = None, level: float = 0.95
) -> list[bool]:
    """Mark the models that the best one does not surely beat; arguments as for `rank_intervals`.

    `paired_test` of the best observed mean against each other model under Holm's correction: the truly best model is
    among the marked with at least this confidence.
    """
    suite = _Suite(benchmarks, clusters)
    best = int(np.argmax(suite.means))
    others = [i for i in range(len(suite.means)) if i != best]
    adjusted = dict(zip(others, holm([suite.p_value(best, i) for i in others]), strict=True))
    return [i == best or adjusted[i] >= 1 - level for i in range(len(suite.means))]


class _Suite:
    """All units of all benchmarks side by side: what each adds to each model's mean over the benchmarks."""

    def __init__(self, benchmarks: Sequence[ArrayLike], clusters: Sequence[ArrayLike | None] | None) -> None:
        matrices = [_scores(matrix) for matrix in benchmarks]
        if not matrices or len({len(matrix) for matrix in matrices}) > 1:
            raise ValueError("need at least one benchmark, each with a row for every model")
        self.means = np.mean([matrix.mean(axis=1) for matrix in matrices], axis=0)
        groups = [None] * len(matrices) if clusters is None else clusters
        parts = [_units(matrix, group) for matrix, group in zip(matrices, groups, strict=True)]
        self.influences = np.concatenate([influences for influences, _ in parts], axis=1) / len(parts)
        self.shares = np.concatenate([shares for _, shares in parts]) / len(parts)

    def p_value(self, first: int, second: int) -> float:
        """The p-value of `paired_test` for two models, over the suite."""
        difference = float(self.means[first] - self.means[second])
        return score_test(difference, self.influences[first] - self.influences[second], self.shares, 0.95)[1]


def _units(matrix: Floats, clusters: ArrayLike | None) -> tuple[Floats, Floats]:
    """What each cluster adds to each model's mean, models x clusters, and each cluster's share of the samples."""
    index, sizes = cluster_index(clusters, matrix.shape[1])
    centred = matrix - matrix.mean(axis=1, keepdims=True)
    sums = centred if clusters is None else np.stack([np.bincount(index, weights=row) for row in centred])
    return sums / matrix.shape[1], sizes / matrix.shape[1]


def _scores(matrix: ArrayLike) -> Floats:
    scores = np.asarray(matrix, dtype=np.float64)
    if scores.ndim != 2 or 0 in scores.shape or not np.isfinite(scores).all():
        raise ValueError(f"scores are a finite matrix, models x samples, not of shape {scores.shape}")
    return scores
