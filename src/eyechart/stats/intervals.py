"""Closed-form confidence intervals of proportions, means and correlations, with their quantiles; chance levels."""

import math
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eyechart.metrics.agreement import mean_ranks, pearson
from eyechart.metrics.vectors import Floats

normal_quantile = NormalDist().inv_cdf
"""The standard normal quantile (scipy's `norm.ppf`)."""


def normal_cdf(value: float) -> float:
    """The standard normal distribution function; accurate in the lower tail."""
    return 0.5 * math.erfc(-value / math.sqrt(2))


def two_sided_z(level: float) -> float:
    """The normal quantile of a two-sided interval with this confidence level: 1.96 for 0.95."""
    if not 0 < level < 1:
        raise ValueError(f"a confidence level lies between 0 and 1, not {level}")
    return normal_quantile(0.5 + level / 2)


def student_quantile(probability: float, degrees: float) -> float:
    """Student's t quantile (scipy's `t.ppf`), within 0.3 % from 4 degrees of freedom, within 1 % below.

    Cornish-Fisher expansion of Abramowitz & Stegun 26.7.5, for probabilities between 0.005 and 0.995; below 4 degrees
    of freedom, a parabola through the exact values for 1, 2 and 4.
    """
    if degrees < 1:
        raise ValueError(f"degrees of freedom start at 1 here, not {degrees}")
    if degrees < 4:
        return _few_degrees(probability, degrees)
    z = normal_quantile(probability)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + math.fsum(term / degrees**power for power, term in enumerate(terms, start=1))


def student_tail(statistic: float, degrees: float) -> float:
    """The probability that Student's t is at least this far from 0 (scipy's `2 * t.sf`).

    In the angle atan(t / sqrt(degrees)) the density is a power of the cosine, integrated by the trapezoidal rule; from
    1,000 degrees of freedom on, the normal approximation of Abramowitz & Stegun 26.7.8.
    """
    if degrees > 1000:
        return 2 * normal_cdf(-statistic * (1 - 0.25 / degrees) / math.sqrt(1 + statistic**2 / (2 * degrees)))
    angles = np.linspace(math.atan(statistic / math.sqrt(degrees)), math.pi / 2, 4001)
    tail = float(np.trapezoid(np.cos(angles) ** (degrees - 1), angles))
    return min(1.0, 2 * tail / math.sqrt(math.pi) * math.exp(math.lgamma(degrees / 2 + 0.5) - math.lgamma(degrees / 2)))


def _few_degrees(probability: float, degrees: float) -> float:
    """Interpolate the logarithm of the quantile in the inverse degrees of freedom."""
    above = max(probability, 1 - probability)
    if above == 0.5:
        return 0.0
    alpha = 4 * above * (1 - above)
    root = math.sqrt(alpha)
    exact = {
        1.0: math.tan(math.pi * (above - 0.5)),
        0.5: 2 * (above - 0.5) * math.sqrt(2 / alpha),
        0.25: 2 * math.sqrt(math.cos(math.acos(root) / 3) / root - 1),
    }
    at = 1 / degrees
    logarithm = sum(
        math.log(value) * math.prod((at - other) / (place - other) for other in exact if other != place)
        for place, value in exact.items()
    )
    return math.copysign(math.exp(logarithm), probability - 0.5)


# `make coverage` measures the actual coverage of each interval; its table is in docs/results.md.

FEWEST_UNITS = 5.0
"""Effective number of independent units (clusters or classes) below which there is no interval."""
_SMALL_SAMPLES = 15.0
"""Growth of z squared for few units: this over their square. The smallest multiple of five for which the interval of a
proportion covers at least 93 % for every proportion and every n."""


class Interval(NamedTuple):
    """A confidence interval, including its ends."""

    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half the length, printed after a plus-minus sign."""
        return (self.high - self.low) / 2


def proportion(successes: float, n: float, level: float = 0.95) -> Interval:
    """Agresti and Coull's interval for a proportion of n independent trials, wider for the smallest n.

    Wilson's interval, which has the same centre, covers only 84 % for some proportions near 0 and 1; this one covers at
    least 93 % everywhere. Below about five expected successes (or failures) it covers up to 100 %, as counts are
    discrete.
    """
    if not 0 < n < math.inf or not 0 <= successes <= n:
        raise ValueError(f"need 0 <= successes <= n and n > 0, not {successes} of {n}")
    return agresti_coull(successes / n, n, widened_z2(level, n))


def mean_interval(
    values: ArrayLike, clusters: ArrayLike | None = None, level: float = 0.95, *, upper: float = 1.0
) -> Interval | None:
    """Interval for the mean of scores between 0 and `upper`, whose rows may be clustered.

    `clusters` names each row's cluster, such as the image of a caption. The interval is that of a proportion
    (`proportion`) over the effective number of independent rows. The variance is the mean of two estimates: the
    cluster-robust one, which holds for every kind of cluster but underestimates a rare large one, and that of equally
    correlated clusters (analysis of variance), which does not. Student's quantile accounts for few clusters, as in Korn
    and Graubard (1998). For binary scores without clusters the result is that of `proportion`.

    None for fewer than five clusters of equal size, or equivalently unequal clusters, such as one with half the rows.
    """
    scores = as_vector(values) / upper
    n = scores.size
    if n == 0 or scores.min() < 0 or scores.max() > 1 + 1e-9:
        raise ValueError(f"need at least one score, all between 0 and {upper:g}")
    index, sizes = cluster_index(clusters, n)
    alone = sizes.size == n
    binary = bool((scores * scores == scores).all())  # only 0 and 1 are their own squares
    mean = min(1.0, float(scores.mean()))
    if binary and alone:
        return Interval(*(upper * end for end in proportion(float(scores.sum()), n, level)))
    concentration = float((sizes**2).sum()) / n**2
    if concentration * FEWEST_UNITS > 1:
        return None
    variance = _clustered_variance(scores, mean, None if clusters is None else index, sizes, binary=binary)
    # Near 0 and 1 the variance rests on a handful of rows or on none. A fraction of one more row, in full agreement
    # with its cluster, keeps the ratio sensible there and changes little elsewhere.
    unseen = (0.5 if binary else 0.1) / n
    rows = (mean * (1 - mean) + unseen) / (variance + unseen * concentration)
    upper_tail = 0.5 + level / 2
    student = student_quantile(upper_tail, 1 / concentration - 1) / two_sided_z(level)
    if binary:  # the variance of a share needs no estimate of its own
        rows = min(rows, n)
        student = max(1.0, student * two_sided_z(level) / student_quantile(upper_tail, n - 1))
    return Interval(*(upper * end for end in agresti_coull(mean, rows, widened_z2(level, rows) * student**2)))


def _clustered_variance(
    scores: Floats, mean: float, index: NDArray[np.intp] | None, sizes: Floats, *, binary: bool
) -> float:
    """The variance of the mean: half cluster-robust, half from the correlation within clusters."""
    n, clusters = scores.size, sizes.size
    shares = sizes / n
    concentration = float((shares**2).sum())
    beyond = scores - mean
    residuals = (beyond if index is None else np.bincount(index, weights=beyond)) / n
    # If all rows of a cluster agree, each residual shows this part of the cluster's variance.
    squares = residuals**2 / (1 - 2 * shares + concentration)
    row = float((beyond**2).sum()) / (n if binary else n - 1)
    correlation = 1.0
    if row > 0 and clusters < n:
        between = float((squares / shares).sum()) * n / row
        correlation = min(1.0, max(0.0, (between - clusters) / (n - clusters)))
    return (float(squares.sum()) + row * (correlation * concentration + (1 - correlation) / n)) / 2


def mean_recall_interval(correct: ArrayLike, labels: ArrayLike, level: float = 0.95) -> Interval | None:
    """Interval for mean per-class recall (sklearn's balanced accuracy), with the classes as strata.

    This is Price and Bonett's (2004) interval for a mean of several proportions: z squared additional samples, half of
    them correct, distributed among the classes that determine the width. A class with a single sample, whose variance
    is unknown, takes that of the mean recall, which is the largest possible on average: if most classes have one sample
    and recalls differ widely, the interval is conservative.

    None if the classes' samples amount to at most four of equal weight, such as a class of one sample and one other
    class.
    """
    values = np.asarray(correct, dtype=np.float64)
    inverse, counts = _numbered(np.asarray(labels))
    if values.size == 0 or inverse.shape != values.shape:
        raise ValueError(f"need one label per sample, not {values.size} samples and {inverse.size} labels")
    if not ((values >= 0) & (values <= 1)).all():
        raise ValueError("correct must lie in [0, 1]")
    classes, weights = counts.size, 1 / counts
    units = classes**2 / float(weights.sum())
    if units < FEWEST_UNITS:
        return None
    z2 = widened_z2(level, units)
    more = z2 * float((weights**2).sum()) / float(weights.sum()) ** 2
    hits = np.bincount(inverse, weights=values)
    mean = float((hits / counts).mean())
    recalls = (hits + more / 2) / (counts + more)
    single = (mean + more / 2) / (1 + more)
    seen = recalls * (1 - recalls) / np.maximum(counts + more - 1, more)
    variances = np.where(counts == 1, single * (1 - single), seen)
    half = float(np.sqrt(z2 * variances.sum())) / classes
    middle = float(recalls.mean())
    return Interval(max(0.0, min(mean, middle - half)), min(1.0, max(mean, middle + half)))


def agresti_coull(share: float, n: float, z2: float) -> Interval:
    """The score interval of a proportion in its simple form: z squared additional trials, half of them successes."""
    trials = n + z2
    middle = (share * n + z2 / 2) / trials
    half = math.sqrt(z2 * middle * (1 - middle) / trials)
    return Interval(
        0.0 if share == 0 else max(0.0, min(share, middle - half)),
        1.0 if share == 1 else min(1.0, max(share, middle + half)),
    )


def widened_z2(level: float, units: float) -> float:
    """The squared normal quantile, increased for few independent units."""
    return two_sided_z(level) ** 2 * (1 + _SMALL_SAMPLES / units**2)


def widen_half(
    half: float, degrees: float, extra: float, extra_degrees: float, level: float
) -> tuple[float, float, float]:
    """Add the variance `extra` of a source with few units (judges, training draws) to one half of an interval.

    Student's quantile applies, with Satterthwaite's degrees of freedom for the sum of the two variances. Return the new
    half, the standard error and the degrees of freedom.
    """
    own = (half / two_sided_z(level)) ** 2
    total, spread = own + extra, math.sqrt(own + extra)
    freedom: float = total**2 / (own**2 / max(1.0, degrees) + extra**2 / extra_degrees) if total else 1.0
    return max(half, student_quantile(0.5 + level / 2, max(1.0, freedom)) * spread), spread, freedom


def widen(interval: Interval, units: int, extra: float, extra_units: int, level: float) -> Interval:
    """Widen an interval within [0, 1] on both sides by the variance of a further source (see `widen_half`)."""
    half, middle = interval.half_width, (interval.low + interval.high) / 2
    half = widen_half(half, units - 1, extra, extra_units - 1, level)[0]
    return Interval(max(0.0, middle - half), min(1.0, middle + half))


def mean_of_intervals(
    values: ArrayLike, intervals: ArrayLike, weights: ArrayLike, correlation: ArrayLike | None = None
) -> Interval:
    """Interval of a weighted mean of estimates from their own intervals, given as rows of low and high.

    Each side is the root of the quadratic form of the weighted distances to the ends (method of variance estimates
    recovery, Zou and Donner 2008), with the correlation matrix of the estimates; by default they are independent.
    """
    estimates, ends, shares = (np.asarray(part, np.float64) for part in (values, intervals, weights))
    matrix = np.eye(estimates.size) if correlation is None else np.asarray(correlation, np.float64)
    below, above = shares * (estimates - ends[:, 0]), shares * (ends[:, 1] - estimates)
    mean = float(shares @ estimates)
    reach = [math.sqrt(max(0.0, float(side @ matrix @ side))) for side in (below, above)]
    return Interval(mean - reach[0], mean + reach[1])


FEWEST_DRAWS = 3
"""Training draws below which their variance is unknown."""


def variance_of_draws(values: ArrayLike) -> float:
    """Variance of the mean score of one training draw, from few-shot scores of training draws x test samples.

    At least the part that the noise of single predictions explains: few test samples make equal means likely.
    """
    table = np.asarray(values, np.float64)
    between, noise = table.mean(axis=1).var(ddof=1), table.var(axis=0, ddof=1).mean() / table.shape[1]
    return float(max(between, noise))


def widen_for_draws(interval: Interval | None, values: ArrayLike, level: float = 0.95) -> Interval | None:
    """Widen the interval of the first training draw's mean score for the choice of training images.

    `values` are training draws x test samples. None for fewer than three draws.
    """
    table = np.asarray(values, np.float64)
    draws, n = table.shape
    if interval is None or draws < FEWEST_DRAWS:
        return None
    return widen(interval, n, variance_of_draws(table), draws, level)


def mean_over_draws_interval(values: ArrayLike, level: float = 0.95) -> Interval | None:
    """Interval of the mean over training draws (rows) and test samples, covering the choice of both.

    None for fewer than three draws.
    """
    table = np.asarray(values, np.float64)
    draws, n = table.shape
    interval = mean_interval(table.mean(axis=0), level=level) if draws >= FEWEST_DRAWS else None
    return interval and widen(interval, n, variance_of_draws(table) / draws, draws, level)


def cluster_index(clusters: ArrayLike | None, n: int) -> tuple[NDArray[np.intp], Floats]:
    """Number the clusters: each row's index and the size of each; by default each row is its own cluster."""
    if clusters is None:
        return np.arange(n), np.ones(n)
    index, sizes = _numbered(np.asarray(clusters))
    if index.shape != (n,):
        raise ValueError(f"need one cluster per sample, not {index.size} for {n} samples")
    return index, sizes.astype(np.float64)


def _numbered(names: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    if names.dtype.kind in "iu" and names.ndim == 1 and names.size and 0 <= names.min() <= names.max() < 4 * names.size:
        counts = np.bincount(names)  # small numbers need no sorting
        there = counts > 0
        index = names if there.all() else (np.cumsum(there) - 1)[names]
        return index.astype(np.intp, copy=False), counts[there]
    _, index, counts = np.unique(names, return_inverse=True, return_counts=True)
    return index, counts


def as_vector(values: ArrayLike) -> Floats:
    """Validate and convert a list of finite numbers."""
    vector = np.asarray(values, dtype=np.float64)
    if vector.ndim != 1:
        raise ValueError(f"need a one-dimensional array, not shape {vector.shape}")
    if not np.isfinite(vector).all():
        raise ValueError("values must be finite numbers")
    return vector


def correlation_interval(
    first: ArrayLike, second: ArrayLike, *, of_ranks: bool = False, level: float = 0.95
) -> Interval | None:
    """Fisher's interval for Pearson's correlation, or with `of_ranks` for Spearman's.

    The variance is the larger of two estimates: that of the normal distribution (widened for ranks as in Bonett and
    Wright, 2000) and the empirical one of the pairs, since heavier tails increase it. For unbounded scores with tails
    like Student's t with 3 degrees of freedom, no interval for Pearson's correlation holds: prefer ranks.

    None below eight pairs, for a perfect correlation, and if one side is constant.
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    n = a.size
    if n < 8 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return None
    if of_ranks:
        a, b = mean_ranks(a), mean_ranks(b)
    value = pearson(a, b)
    if abs(value) > 1 - 1e-12:
        return None
    normal = 1 + value**2 / 2 if of_ranks else 1.0
    shown = float(np.var(_influences(a, b, value, of_ranks=of_ranks))) / (1 - value**2) ** 2
    half = two_sided_z(level) * math.sqrt(max(normal, shown) / (n - 3))
    middle = math.atanh(value)
    return Interval(math.tanh(middle - half), math.tanh(middle + half))


def _influences(a: Floats, b: Floats, value: float, *, of_ranks: bool) -> Floats:
    """Influence of each pair on the correlation, times n; a pair also moves the ranks of all pairs above it."""
    u, v = ((side - side.mean()) / side.std() for side in (a, b))
    out = u * v - value * (u**2 + v**2) / 2
    if of_ranks:
        out = out + _through_ranks(a, v - value * u) + _through_ranks(b, u - value * v)
    return np.asarray(out)


def _through_ranks(ranks: Floats, slopes: Floats) -> Floats:
    """Influence of a pair through ranks: it raises those above its own by one, and equal ones by a half."""
    order = np.argsort(ranks, kind="stable")
    above = np.append(np.cumsum(slopes[order][::-1])[::-1], 0.0)
    starts = np.flatnonzero(np.diff(ranks[order], prepend=-np.inf))
    ends = np.append(starts[1:], ranks.size)
    out = np.empty(ranks.size)
    out[order] = np.repeat(above[starts] + above[ends], ends - starts)
    return np.asarray(out / 2 / ranks.std())


def chance_accuracy(n_classes: int, k: int = 1) -> float:
    """Expected top-k accuracy of a random order of the classes: k / n, at most 1."""
    if n_classes < 1 or k < 1:
        raise ValueError(f"need at least one class and k >= 1, not {n_classes} classes and k = {k}")
    return min(1.0, k / n_classes)


def chance_normalised(score: float, chance: float) -> float:
    """Rescale a score so that chance is 0 and perfect is 1; below chance it is negative."""
    if not 0 <= chance < 1:
        raise ValueError(f"chance must lie in [0, 1), not {chance}")
    return (score - chance) / (1 - chance)
