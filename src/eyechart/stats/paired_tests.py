"""Paired tests of models on the same samples, corrections for many tests, and rank intervals."""

import math
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from eyechart.metrics.vectors import Floats
from eyechart.stats.intervals import (
    FEWEST_DRAWS,
    Interval,
    as_vector,
    cluster_index,
    normal_cdf,
    normal_quantile,
    student_tail,
    two_sided_z,
    variance_of_draws,
    widen_half,
    widened_z2,
)

NAME = "paired score test"
MCNEMAR = "exact McNemar test"
SIGN_FLIP = "exact sign-flip test"
"""As McNemar's, for differences of several sizes: every combination of signs is equally likely."""
OVER_DRAWS = "paired test over training draws"
FEW_DISCORDANT = 25
"""Largest number of units on which two models differ for which the exact test decides."""


class PairedTest(NamedTuple):
    """Advantage of the first model over the second on the same samples."""

    difference: float
    interval: Interval | None
    """None if there are too few independent units."""
    p_value: float
    """Two-sided; below 1 - level exactly when the interval excludes 0."""
    n: int
    n_clusters: int
    test: str = NAME
    spread: float | None = None
    """The standard error of the difference; None for a test over training draws."""


def paired_test(
    first: ArrayLike, second: ArrayLike, clusters: ArrayLike | None = None, *, level: float = 0.95
) -> PairedTest:
    """Test whether mean(first) - mean(second) over the same samples is 0, with its interval.

    `clusters` names each sample's cluster (its image), within which samples may be dependent. Scores lie in [0, 1]. For
    binary scores the statistic is McNemar's, (b - c)^2 / (b + c), and with at most 25 discordant samples the p-value is
    that of his exact test; clusters and other scores have the exact test of as many units whose sums differ.
    """
    a, b = as_vector(first), as_vector(second)
    if a.shape != b.shape or a.size == 0:
        raise ValueError(f"paired samples need two equal, non-empty lists, not {a.shape} and {b.shape}")
    index, sizes = cluster_index(clusters, a.size)
    gains = a - b if clusters is None else np.asarray(np.bincount(index, weights=a - b), np.float64)
    difference = float((a - b).mean())
    influences, shares = (gains - difference * sizes) / a.size, sizes / a.size
    interval, p_value, test = unit_test(difference, influences, shares, gains, level)
    return PairedTest(difference, interval, p_value, a.size, sizes.size, test, math.sqrt((influences**2).sum()))


def paired_test_over_draws(first: ArrayLike, second: ArrayLike, *, level: float = 0.95) -> PairedTest | None:
    """Test the difference of two few-shot classifiers, in expectation over training draws and test samples.

    `first` and `second` are training draws x test samples; row r of both comes from the same draw. The variances of the
    two factors of this crossed design add up: that of the mean over draws of the samples' differences (`paired_test`),
    and that of the draws' differences. Student's quantile has Satterthwaite's degrees of freedom for the sum.

    None for fewer than three draws, which give no useful estimate of their variance.
    """
    gains = np.asarray(first, np.float64) - np.asarray(second, np.float64)
    draws, n = gains.shape
    if draws < FEWEST_DRAWS:
        return None
    over_samples = paired_test(gains.mean(axis=0), np.zeros(n), level=level)
    difference, interval = over_samples.difference, over_samples.interval
    if interval is None:
        return over_samples._replace(test=OVER_DRAWS, spread=None)
    extra = variance_of_draws(gains) / draws
    (below, *tail_below), (above, *tail_above) = (
        widen_half(half, n - 1, extra, draws - 1, level)
        for half in (difference - interval.low, interval.high - difference)
    )
    spread, degrees = tail_below if difference > 0 else tail_above
    p_value = student_tail(abs(difference) / spread, degrees) if difference else 1.0
    ends = Interval(max(-1.0, difference - below), min(1.0, difference + above))
    return PairedTest(difference, *_agree(ends, max(p_value, over_samples.p_value), level), n, n, OVER_DRAWS)


def _agree(interval: Interval | None, p_value: float, level: float) -> tuple[Interval | None, float]:
    """Make the interval exclude 0 exactly if the p-value does: of two tests, the weaker decides."""
    if interval is None or p_value < 1 - level:
        excluded = interval is not None and not interval.low <= 0 <= interval.high
        return interval, p_value if excluded else max(p_value, 1 - level)
    return Interval(min(interval.low, 0.0), max(interval.high, 0.0)), p_value


def unit_test(
    difference: float, influences: Floats, shares: Floats, gains: Floats, level: float
) -> tuple[Interval | None, float, str]:
    """`score_test`, or the exact test if few units differ; return interval, p-value and the test's name.

    `gains` holds each unit's contribution to the difference, up to a constant factor.
    """
    interval, p_value = score_test(difference, influences, shares, level)
    unequal = np.abs(gains[np.abs(gains) > 1e-12 * np.abs(gains).max(initial=0)])
    if not 0 < unequal.size <= FEW_DISCORDANT:
        return interval, p_value, NAME
    exact = sign_flip_p_value(unequal, float(gains.sum()))
    if np.ptp(unequal) <= 1e-12 * unequal.max():
        return *_agree(interval, exact, level), MCNEMAR
    return *_agree(interval, max(p_value, exact), level), SIGN_FLIP  # the score test holds for skewed differences, too


def sign_flip_p_value(sizes: Floats, total: float) -> float:
    """The share of all signs of `sizes` with which they add up to `total`, or farther from 0.

    Two halves are enumerated, and pairs of their sums counted, so 25 sizes take no more than 2^13 sums.
    """
    halves = [np.zeros(1), np.zeros(1)]
    for place, size in enumerate(sizes):
        half = halves[place % 2]
        halves[place % 2] = np.concatenate([half - size, half + size])
    one, other = halves[0], np.sort(halves[1])
    observed = abs(total) - 1e-9 * float(sizes.sum())  # sums that differ by rounding are equal
    reached = other.size - np.searchsorted(other, observed - one, side="left")
    return min(1.0, 2 * float(reached.sum()) / 2.0**sizes.size)


def score_test(difference: float, influences: Floats, shares: Floats, level: float) -> tuple[Interval | None, float]:
    """The interval of a mean of independent units, and the p-value of 0.

    `influences` holds each unit's contribution to the difference (they sum to 0), `shares` its share of all rows (they
    sum to 1). The statistic for a hypothetical difference is the squared distance over the sum of squares of the
    contributions under that hypothesis: no variance has to be estimated, and no unbalanced cluster can hide its own.
    Away from the estimate the variance also grows with the skewness of the units (for binary scores like Wilson's). The
    interval ends where the statistic reaches its quantile, so p-value and interval agree.

    There is no interval below six units of equal size: the signs of five agree by chance in 1 of 16 cases.
    """
    concentration = float((shares**2).sum())
    z2 = widened_z2(level, 1 / concentration)
    squares = influences * influences
    spread = float(squares.sum())
    scale = max(abs(difference), math.sqrt(spread))
    if spread <= (1e-9 * scale) ** 2:  # all units alike
        spread, skew, slope = 0.0, 0.0, 0.0
        unlike = concentration * (abs(difference) or 1.0)  # how unlike one more unit may be
    else:
        skew = float((squares * influences).sum()) / spread
        slope = 2 * float((influences * shares).sum())
        unlike = 0.0

    def variance(distance: float, side: int) -> float:
        square = distance**2 * concentration
        growth = max(unlike, side * skew)
        return spread + max(square - side * slope * distance, growth * distance - square)

    def limit(side: int) -> float:
        growth = max(unlike, side * skew)
        return max(
            _root(1 - z2 * concentration, -side * z2 * slope, z2 * spread),
            _root(1 + z2 * concentration, z2 * growth, z2 * spread),
        )

    p_value = 1.0
    if difference and shares.size > 1:
        found = difference**2 / variance(abs(difference), -1 if difference > 0 else 1)
        widening = z2 / two_sided_z(level) ** 2
        # Units that all agree give the strongest evidence possible for their number.
        p_value = min(1.0, 2 * normal_cdf(-math.sqrt(min(found, 1 / concentration) / widening)))
    if z2 * concentration >= 1:
        return None, p_value
    return Interval(max(-1.0, difference - limit(-1)), min(1.0, difference + limit(1))), p_value


def _root(square: float, linear: float, constant: float) -> float:
    """The positive solution of square * x^2 = linear * x + constant."""
    return (linear + math.sqrt(linear**2 + 4 * square * constant)) / (2 * square)


def holm(p_values: ArrayLike) -> list[float]:
    """Holm's step-down adjustment, in the order given (statsmodels' `multipletests(method="holm")`)."""
    values = np.asarray(p_values, dtype=np.float64)
    if values.ndim != 1 or not ((values >= 0) & (values <= 1)).all():
        raise ValueError("p-values are a list of numbers between 0 and 1")
    order = np.argsort(values, kind="stable")
    stepped = np.maximum.accumulate(values[order] * np.arange(values.size, 0, -1))
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(stepped, 1.0)
    return [float(value) for value in adjusted]


def smallest_detectable_difference(
    n: float, disagreement: float, alpha: float = 0.05, power: float = 0.8
) -> float | None:
    """The smallest difference of accuracies that McNemar's test detects with this power on n paired samples.

    `disagreement` is the fraction of samples that exactly one model gets right. Solves the sample-size formula of
    Connor (1987) for the difference. None if even a completely one-sided disagreement would be undetected: there are
    too few samples to separate such models.
    """
    if n <= 0 or not 0 <= disagreement <= 1:
        raise ValueError(f"need n > 0 and a disagreement in [0, 1], not {n} and {disagreement}")
    if not 0 < alpha < 1 or not alpha < power < 1:
        raise ValueError(f"need 0 < alpha < power < 1, not alpha {alpha} and power {power}")
    z_alpha, z_power = normal_quantile(1 - alpha / 2), normal_quantile(power)
    under_root = n + z_power**2 - z_alpha**2
    if disagreement == 0 or under_root < 0:
        return None
    difference = math.sqrt(disagreement) * (z_alpha * math.sqrt(n) + z_power * math.sqrt(under_root)) / (n + z_power**2)
    return difference if difference <= disagreement else None


def more_units_to_decide(test: PairedTest, level: float = 0.95, power: float = 0.8) -> float | None:
    """How many more independent units detect the observed difference with this power, at the observed variance.

    The standard error falls with the root of the number of units, all benchmarks growing alike, and has to reach
    difference / (z_level + z_power). None if the difference is 0 or detected already, or all units are alike.
    """
    if test.p_value < 1 - level or not test.difference or not test.spread:
        return None
    needed = abs(test.difference) / (two_sided_z(level) + normal_quantile(power))
    more = test.n_clusters * ((test.spread / needed) ** 2 - 1)
    return more if more > 0 else None


def discordant(first: ArrayLike, second: ArrayLike) -> tuple[int, int]:
    """Count the samples that only the first, and only the second, model got right."""
    a, b = np.asarray(first, dtype=bool), np.asarray(second, dtype=bool)
    if a.shape != b.shape:
        raise ValueError(f"paired samples need equal lengths, not {a.size} and {b.size}")
    return int((a & ~b).sum()), int((b & ~a).sum())


class RankInterval(NamedTuple):
    """Range of possible ranks of a model: 1 is the best."""

    low: int
    high: int


def rank_intervals(
    benchmarks: Sequence[ArrayLike],
    clusters: Sequence[ArrayLike | None] | None = None,
    level: float = 0.95,
    weights: Sequence[float] | None = None,
) -> list[RankInterval]:
    """Rank intervals of models over a suite, by the mean of their benchmark means.

    `benchmarks` has one matrix per benchmark, models x samples (with the benchmark's own samples, and the models always
    in the same order); `clusters`, if given, has one list of sample clusters, or None, per benchmark; `weights` add up
    to 1, by default they are equal. A model's rank lies between 1 + (models significantly better) and M - (models
    significantly worse), from `paired_test` of all pairs under Holm's correction (Klein, Wright and Wieczorek 2020):
    all intervals hold simultaneously with at least this confidence. The suite is fixed: only its samples are random.
    """
    suite = _Suite(benchmarks, clusters, weights)
    models = len(suite.means)
    pairs = list(combinations(range(models), 2))
    adjusted = holm([suite.test(i, j, level).p_value for i, j in pairs])
    better, worse = [0] * models, [0] * models
    for (i, j), p_value in zip(pairs, adjusted, strict=True):
        if p_value < 1 - level:
            winner, loser = (i, j) if suite.means[i] > suite.means[j] else (j, i)
            worse[winner] += 1
            better[loser] += 1
    return [RankInterval(1 + better[i], models - worse[i]) for i in range(models)]


def paired_suite_test(
    benchmarks: Sequence[ArrayLike], weights: Sequence[float] | None = None, *, level: float = 0.95
) -> PairedTest:
    """Test whether two models have the same mean over a suite; the arguments and the test are `rank_intervals`'."""
    return _Suite(benchmarks, None, weights).test(0, 1, level)


def p_values_against_best(
    scores: ArrayLike, clusters: ArrayLike | None = None, level: float = 0.95
) -> tuple[int, dict[int, float]]:
    """`paired_test` of the best observed mean against each other row of a matrix, models x samples."""
    suite = _Suite([scores], [clusters], None)
    best = int(np.argmax(suite.means))
    return best, {i: suite.test(best, i, level).p_value for i in range(len(suite.means)) if i != best}


class _Suite:
    """Units of all benchmarks, concatenated, with their influence on each model's mean over the benchmarks."""

    def __init__(
        self,
        benchmarks: Sequence[ArrayLike],
        clusters: Sequence[ArrayLike | None] | None,
        weights: Sequence[float] | None,
    ) -> None:
        matrices = [np.asarray(matrix, np.float64) for matrix in benchmarks]
        for matrix in matrices:
            if matrix.ndim != 2 or 0 in matrix.shape or not np.isfinite(matrix).all():
                raise ValueError(f"scores are a finite matrix, models x samples, not of shape {matrix.shape}")
        if not matrices or len({len(matrix) for matrix in matrices}) > 1:
            raise ValueError("need at least one benchmark, each with a row for every model")
        groups = [None] * len(matrices) if clusters is None else clusters
        own = [1 / len(matrices)] * len(matrices) if weights is None else weights
        parts = []  # each cluster's part of each model's mean, models x clusters, and its share of the samples
        for matrix, group in zip(matrices, groups, strict=True):
            index, sizes = cluster_index(group, matrix.shape[1])
            sums = matrix if group is None else np.stack([np.bincount(index, weights=row) for row in matrix])
            parts.append((sums / matrix.shape[1], sizes / matrix.shape[1]))
        means = [matrix.mean(axis=1, keepdims=True) for matrix in matrices]
        self.means = np.sum([w * mean[:, 0] for w, mean in zip(own, means, strict=True)], axis=0)
        self.sums = np.concatenate([w * sums for w, (sums, _) in zip(own, parts, strict=True)], axis=1)
        self.shares = np.concatenate([w * shares for w, (_, shares) in zip(own, parts, strict=True)])
        expected = [w * mean * shares for w, mean, (_, shares) in zip(own, means, parts, strict=True)]
        self.influences = self.sums - np.concatenate(expected, axis=1)
        self.n = sum(matrix.shape[1] for matrix in matrices)

    def test(self, first: int, second: int, level: float) -> PairedTest:
        """`paired_test` of two models, over the suite."""
        difference = float(self.means[first] - self.means[second])
        influences, gains = (part[first] - part[second] for part in (self.influences, self.sums))
        interval, p_value, test = unit_test(difference, influences, self.shares, gains, level)
        spread = math.sqrt((influences**2).sum())
        return PairedTest(difference, interval, p_value, self.n, self.shares.size, test, spread)
