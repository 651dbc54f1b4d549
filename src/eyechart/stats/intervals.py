"""Closed-form confidence intervals for shares and means of scores between 0 and 1.

`make coverage` measures how often each interval holds what it should; its table is in docs/results.md. None stands
for "too few": where nothing that is narrower than almost everything could hold, no interval is given.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eyechart.metrics.vectors import Floats
from eyechart.stats.quantiles import student_quantile, two_sided_z

FEWEST_UNITS = 5.0
"""Independent units (clusters or classes, as many of equal size as tell the same) below which there is no interval."""
_SMALL_SAMPLES = 15.0
"""How much z squared grows when units are few: by this over their square. The smallest multiple of five with which
the interval of a share covers at least 93 % for every share and every n."""


class Interval(NamedTuple):
    """A confidence interval, ends included."""

    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half the length: what tables print after a plus-minus sign."""
        return (self.high - self.low) / 2


def proportion(successes: float, n: float, level: float = 0.95) -> Interval:
    """Agresti and Coull's interval for a share of n independent trials, wider for the smallest n.

    Wilson's, which has the same middle, covers only 84 % for some shares near 0 and 1; this one covers at least 93 %
    everywhere. Below about five expected successes (or failures) it covers up to 100 %, as the counts are so coarse.
    """
    if not 0 < n < math.inf or not 0 <= successes <= n:
        raise ValueError(f"need 0 <= successes <= n and n > 0, not {successes} of {n}")
    return agresti_coull(successes / n, n, widened_z2(level, n))


def mean_interval(
    values: ArrayLike, clusters: ArrayLike | None = None, level: float = 0.95, *, upper: float = 1.0
) -> Interval | None:
    """Interval for the mean of scores between 0 and `upper`, whose rows need not be independent.

    `clusters` names each row's cluster: the captions of one image. The interval is that of a share (`proportion`) of
    as many independent rows as have the same variance. The variance is the mean of two estimates: the cluster-robust
    one, which holds for every kind of cluster but hardly sees the rare large one, and that of equally correlated
    clusters (the analysis of variance), which does. Student's quantile allows for few clusters, as Korn and Graubard
    (1998) do it. Rights and wrongs without clusters give `proportion`.

    None if there are fewer than five clusters of equal size, or clusters as unequal as that: one with half the rows.
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
        return _scaled(proportion(float(scores.sum()), n, level), upper)
    concentration = float((sizes**2).sum()) / n**2
    if concentration * FEWEST_UNITS > 1:
        return None
    variance = _clustered_variance(scores, mean, None if clusters is None else index, sizes, binary=binary)
    # Near 0 and 1 the variance rests on a handful of rows or on none. A part of one more row, that would agree with
    # its whole cluster, keeps the ratio sensible there and changes little elsewhere.
    unseen = (0.5 if binary else 0.1) / n
    rows = (mean * (1 - mean) + unseen) / (variance + unseen * concentration)
    upper_tail = 0.5 + level / 2
    student = student_quantile(upper_tail, 1 / concentration - 1) / two_sided_z(level)
    if binary:  # the variance of a share needs no estimate of its own
        rows = min(rows, n)
        student = max(1.0, student * two_sided_z(level) / student_quantile(upper_tail, n - 1))
    return _scaled(agresti_coull(mean, rows, widened_z2(level, rows) * student**2), upper)


def _clustered_variance(
    scores: Floats, mean: float, index: NDArray[np.intp] | None, sizes: Floats, *, binary: bool
) -> float:
    """The variance of the mean: half cluster-robust, half from the correlation within clusters."""
    n, clusters = scores.size, sizes.size
    shares = sizes / n
    concentration = float((shares**2).sum())
    beyond = scores - mean
    residuals = (beyond if index is None else np.bincount(index, weights=beyond)) / n
    # Of clusters whose rows all agree, each residual shows this part of the cluster's variance.
    squares = residuals**2 / (1 - 2 * shares + concentration)
    row = float((beyond**2).sum()) / (n if binary else n - 1)
    correlation = 1.0
    if row > 0 and clusters < n:
        between = float((squares / shares).sum()) * n / row
        correlation = min(1.0, max(0.0, (between - clusters) / (n - clusters)))
    return (float(squares.sum()) + row * (correlation * concentration + (1 - correlation) / n)) / 2


def mean_recall_interval(correct: ArrayLike, labels: ArrayLike, level: float = 0.95) -> Interval | None:
    """Interval for mean per-class recall (sklearn's balanced accuracy), the classes taken as strata.

    It is Price and Bonett's (2004) for a mean of several shares: z squared more samples, half of them right, dealt
    among the classes that decide the width. A class with a single sample, whose spread nobody can see, takes that of
    the mean recall, which is the largest it can be on average: where most classes have one sample and recalls differ
    much, the interval covers more than it says.

    None if the classes' samples tell no more than four of equal weight: a class of one sample and one other class.
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
    """The share's score interval in its simple form: z squared more trials, half of them successes."""
    trials = n + z2
    middle = (share * n + z2 / 2) / trials
    half = math.sqrt(z2 * middle * (1 - middle) / trials)
    return Interval(
        0.0 if share == 0 else max(0.0, min(share, middle - half)),
        1.0 if share == 1 else min(1.0, max(share, middle + half)),
    )


def widened_z2(level: float, units: float) -> float:
    """The normal quantile squared, grown for few independent units."""
    return two_sided_z(level) ** 2 * (1 + _SMALL_SAMPLES / units**2)


def cluster_index(clusters: ArrayLike | None, n: int) -> tuple[NDArray[np.intp], Floats]:
    """Number the clusters: each row's, and how many rows each has; without clusters each row is its own."""
    if clusters is None:
        return np.arange(n), np.ones(n)
    index, sizes = _numbered(np.asarray(clusters))
    if index.shape != (n,):
        raise ValueError(f"need one cluster per sample, not {index.size} for {n} samples")
    return index, sizes.astype(np.float64)


def _numbered(names: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Number names in their order, and count each."""
    if names.dtype.kind in "iu" and names.ndim == 1 and names.size and 0 <= names.min() <= names.max() < 4 * names.size:
        counts = np.bincount(names)  # small numbers need no sorting
        there = counts > 0
        index = names if there.all() else (np.cumsum(there) - 1)[names]
        return index.astype(np.intp, copy=False), counts[there]
    _, index, counts = np.unique(names, return_inverse=True, return_counts=True)
    return index, counts


def _scaled(interval: Interval, upper: float) -> Interval:
    return Interval(interval.low * upper, interval.high * upper)


def as_vector(values: ArrayLike) -> Floats:
    """Return a list of finite numbers as an array."""
    vector = np.asarray(values, dtype=np.float64)
    if vector.ndim != 1:
        raise ValueError(f"need a one-dimensional array, not shape {vector.shape}")
    if not np.isfinite(vector).all():
        raise ValueError("values must be finite numbers")
    return vector
