"""Seeded bootstrap intervals; a resample is a row of weights: how often each unit was drawn."""

import math
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eyechart.stats.intervals import FloatArray, Interval, wilson
from eyechart.stats.quantiles import normal_cdf, normal_quantile, student_quantile, two_sided_z

Method = Literal["percentile", "bca"]
Statistic = Callable[[FloatArray], FloatArray]

_BLOCK = 4_000_000  # weights held at once: 32 MB


class PairedDifference(NamedTuple):
    """How much better the first model is than the second on the same samples."""

    difference: float
    interval: Interval
    p_value: float
    n: int
    n_clusters: int


def bootstrap(
    statistic: Statistic,
    n: int,
    *,
    rounds: int = 2000,
    level: float = 0.95,
    seed: int = 0,
    method: Method = "percentile",
) -> Interval:
    """Bootstrap interval of a statistic of weighted units.

    `statistic` takes a matrix of weights (resamples x n, the sum of a row being n) and returns one value
    for each row; NaN means that it is undefined for that resample, which is then left out. To resample
    images rather than rows, let the units be images. "bca" corrects bias and skew (Efron 1987) and
    costs n more evaluations.
    """
    if n < 1:
        raise ValueError("nothing to resample: n is 0")
    draws = bootstrap_draws(statistic, n, rounds, seed)
    estimate = float(statistic(np.ones((1, n)))[0])
    left_out = np.concatenate([statistic(weights) for weights in _jackknife(n)]) if method == "bca" else None
    return _interval(draws, estimate, left_out, n, level)


def bootstrap_draws(statistic: Statistic, n: int, rounds: int, seed: int) -> FloatArray:
    """The values of `statistic` (see `bootstrap`) in `rounds` resamples of n units."""
    generator = np.random.default_rng(seed)
    return np.concatenate([statistic(weights) for weights in _resamples(generator, n, rounds)])


def bootstrap_ratio(
    numerators: ArrayLike,
    denominators: ArrayLike | None = None,
    *,
    rounds: int = 10_000,
    level: float = 0.95,
    seed: int = 0,
    method: Method = "percentile",
) -> Interval:
    """Bootstrap interval of sum(numerators) / sum(denominators); without denominators, of the mean."""
    top = np.asarray(numerators, dtype=np.float64)
    bottom = np.ones_like(top) if denominators is None else np.asarray(denominators, dtype=np.float64)
    draws = _ratio_draws(top, bottom, rounds, seed)
    left_out = (top.sum() - top) / _nonzero(bottom.sum() - bottom) if method == "bca" else None
    return _interval(draws, float(top.sum() / bottom.sum()), left_out, top.size, level)


def paired_bootstrap(
    first: ArrayLike,
    second: ArrayLike,
    clusters: ArrayLike | None = None,
    *,
    rounds: int = 10_000,
    level: float = 0.95,
    seed: int = 0,
) -> PairedDifference:
    """Interval and two-sided p-value for mean(first) - mean(second) over the same samples.

    `clusters` gives each sample's cluster (its image): whole clusters are then resampled. The p-value is
    that of the interval turned round: twice the share of resamples on the other side of 0 (those at 0 count
    half), with the same allowance for few clusters. Scores lie in [0, 1]; when all clusters have the same
    difference (two models that answer alike), the interval is as wide as the share of other clusters that
    may have gone unseen.
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if a.shape != b.shape or a.ndim != 1 or a.size == 0:
        raise ValueError(f"paired samples need two equal, non-empty lists, not {a.shape} and {b.shape}")
    gains, sizes = sum_by_cluster(a - b, clusters)
    draws = _ratio_draws(gains, sizes, rounds, seed)
    estimate = float((a - b).mean())
    interval = _interval(draws, estimate, None, gains.size, level)
    if interval.low == interval.high:
        unseen = wilson(0, gains.size, level).high
        interval = Interval(max(-1.0, estimate - unseen), min(1.0, estimate + unseen))
    return PairedDifference(estimate, interval, _p_value(draws, gains.size), a.size, gains.size)


def sum_by_cluster(values: FloatArray, clusters: ArrayLike | None) -> tuple[FloatArray, FloatArray]:
    """Sum the samples' values in each cluster, and count them; without clusters each sample is its own."""
    if clusters is None:
        return values, np.ones_like(values)
    _, inverse = np.unique(np.asarray(clusters), return_inverse=True)
    if inverse.shape != values.shape:
        raise ValueError(f"need one cluster per sample, not {inverse.size} for {values.size} samples")
    sums = np.bincount(inverse, weights=values).astype(np.float64)
    return sums, np.bincount(inverse).astype(np.float64)


def _ratio_draws(top: FloatArray, bottom: FloatArray, rounds: int, seed: int) -> FloatArray:
    """Resampled ratios of sums.

    Units that are alike are interchangeable: when there are few kinds (right and wrong, mostly), how often
    each kind is drawn is one multinomial draw, whatever the number of units.
    """
    if top.shape != bottom.shape or top.ndim != 1 or top.size == 0:
        raise ValueError(f"need two equal, non-empty lists, not {top.shape} and {bottom.shape}")
    generator = np.random.default_rng(seed)
    kinds, counts = np.unique(np.stack([top, bottom], axis=1), axis=0, return_counts=True)
    if counts.size <= 64 + top.size // 16:  # measured: where one multinomial is quicker than drawing units
        weights = generator.multinomial(top.size, counts / top.size, size=rounds).astype(np.float64)
        return np.asarray((weights @ kinds[:, 0]) / (weights @ kinds[:, 1]), dtype=np.float64)
    ratios = np.empty(rounds)
    for i in range(rounds):
        drawn = generator.integers(0, top.size, size=top.size, dtype=np.int32)
        ratios[i] = top[drawn].sum() / bottom[drawn].sum()
    return ratios


def _resamples(generator: np.random.Generator, n: int, rounds: int) -> Iterator[FloatArray]:
    """Yield blocks of weight rows, each row counting n draws with replacement from n units."""
    block = max(1, _BLOCK // n)
    for start in range(0, rounds, block):
        rows = min(block, rounds - start)
        weights = np.empty((rows, n))
        for row in weights:
            row[:] = np.bincount(generator.integers(0, n, size=n, dtype=np.int32), minlength=n)
        yield weights


def _jackknife(n: int) -> Iterator[FloatArray]:
    """Yield blocks of weight rows, each leaving one unit out."""
    block = max(1, _BLOCK // n)
    for start in range(0, n, block):
        rows = np.arange(start, min(start + block, n))
        weights = np.ones((rows.size, n))
        weights[np.arange(rows.size), rows] = 0
        yield weights


def _interval(draws: FloatArray, estimate: float, left_out: FloatArray | None, n: int, level: float) -> Interval:
    """Read the interval off the sorted draws; `left_out` (the jackknife values) asks for BCa.

    The tail is Hesterberg's expanded one (2015, section 3.3): a bootstrap of n units is too narrow by
    sqrt((n - 1) / n) and ignores that the spread itself is estimated.
    """
    draws = draws[~np.isnan(draws)]
    if draws.size == 0:
        raise ValueError("the statistic is undefined for every resample")
    z = two_sided_z(level)
    if n > 1:
        z = student_quantile(0.5 + level / 2, n - 1) * math.sqrt(n / (n - 1))
    tails = [normal_cdf(-z), normal_cdf(z)]
    if left_out is not None:
        tails = _bca_tails(draws, estimate, left_out, z)
    low, high = np.quantile(draws, tails)
    return Interval(float(low), float(high))


def _p_value(draws: FloatArray, n: int) -> float:
    """Two-sided p-value of 0: the share of draws beyond it, the tail expansion of `_interval` undone."""
    if n < 2:
        return 1.0
    beyond = (float((draws < 0).sum()) + float((draws == 0).sum()) / 2 + 0.5) / (draws.size + 1)
    t = normal_quantile(min(beyond, 1 - beyond)) * math.sqrt((n - 1) / n)
    degrees = n - 1
    # The normal value that is as unlikely as this Student one: Abramowitz & Stegun 26.7.8.
    z = t * (1 - 1 / (4 * degrees)) / math.sqrt(1 + t * t / (2 * degrees))
    return min(1.0, 2 * normal_cdf(z))


def _bca_tails(draws: FloatArray, estimate: float, left_out: FloatArray, z: float) -> list[float]:
    below = ((draws < estimate).sum() + (draws == estimate).sum() / 2) / draws.size
    if not 0 < below < 1:  # every draw on one side: nothing to correct with
        return [normal_cdf(-z), normal_cdf(z)]
    bias = normal_quantile(float(below))
    gaps = np.nanmean(left_out) - left_out[~np.isnan(left_out)]
    spread = float((gaps**2).sum())
    acceleration = float((gaps**3).sum()) / (6 * spread**1.5) if spread > 0 else 0.0
    return [normal_cdf(bias + (bias + s) / (1 - acceleration * (bias + s))) for s in (-z, z)]


def _nonzero(values: NDArray[np.float64]) -> FloatArray:
    return np.where(values == 0, np.nan, values)
