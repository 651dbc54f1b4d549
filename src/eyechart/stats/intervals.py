"""Closed-form confidence intervals for accuracies, hit rates and mean per-class recall."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eyechart.stats.quantiles import student_quantile, two_sided_z

FloatArray = NDArray[np.float64]


class Interval(NamedTuple):
    """A confidence interval, ends included."""

    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half the length: what tables print after a plus-minus sign."""
        return (self.high - self.low) / 2


def wilson(successes: float, n: float, level: float = 0.95) -> Interval:
    """Wilson's score interval for a proportion (statsmodels' `proportion_confint(method="wilson")`).

    Well behaved at 0 and at n. Both arguments may be fractional: n is then an effective sample size.
    """
    if not 0 < n < math.inf or not 0 <= successes <= n:
        raise ValueError(f"need 0 <= successes <= n and n > 0, not {successes} of {n}")
    z2 = two_sided_z(level) ** 2
    p = successes / n
    centre = (p + z2 / (2 * n)) / (1 + z2 / n)
    spread = math.sqrt(z2 * (p * (1 - p) / n + z2 / (4 * n * n))) / (1 + z2 / n)
    return Interval(
        0.0 if successes == 0 else max(0.0, centre - spread),
        1.0 if successes == n else min(1.0, centre + spread),
    )


def clustered_proportion(hits_per_cluster: ArrayLike, sizes: ArrayLike, level: float = 0.95) -> Interval:
    """Interval for sum(hits) / sum(sizes) when the rows of a cluster are not independent.

    The captions of one image are such a cluster. It is Wilson's interval with an effective sample size: n
    divided by the design effect of the ratio estimator, and by the Student correction for few clusters that
    Korn and Graubard (1998) give. With one row per cluster it is Wilson's interval; when every row is a hit
    or a miss, the number of clusters is the sample size. Rows may score fractions in [0, 1] (a reciprocal
    rank, an nDCG): give their sums.
    """
    hits, rows = _as_vector(hits_per_cluster), _as_vector(sizes)
    if hits.shape != rows.shape or rows.size == 0:
        raise ValueError(f"need one size per cluster, not {hits.size} sums and {rows.size} sizes")
    if (rows <= 0).any() or (hits < 0).any() or (hits > rows + 1e-9).any():
        raise ValueError("need 0 <= hits <= size and size > 0 in every cluster")
    clusters, n = rows.size, float(rows.sum())
    p = min(1.0, float(hits.sum()) / n)
    if clusters == 1:
        return wilson(p, 1, level)
    # Both variances with their finite-sample factor: with one row per cluster the ratio is exactly 1.
    residuals = float(((hits - p * rows) ** 2).sum()) / n**2
    variance = residuals * clusters / (clusters - 1) * (n - 1) / n
    effective = effective_size(p, variance, n, at_edge=clusters)
    upper = 0.5 + level / 2
    student = student_quantile(upper, max(1, round(n) - 1)) / student_quantile(upper, clusters - 1)
    effective = max(1.0, effective * min(1.0, student) ** 2)
    return wilson(p * effective, effective, level)


def mean_recall_interval(correct: ArrayLike, labels: ArrayLike, level: float = 0.95) -> Interval:
    """Interval for mean per-class recall (sklearn's balanced accuracy), the classes taken as strata.

    Only classes that occur count. The variance is the stratified one; a class with a single sample, whose
    spread nobody can see, takes that of the mean recall. Wilson's form keeps it well behaved at 0 and 1,
    where the effective size is that of classes with equal recall: C^2 / sum(1 / n_c).
    """
    values = _as_vector(correct)
    _, inverse, counts = np.unique(np.asarray(labels), return_inverse=True, return_counts=True)
    if values.size == 0 or inverse.shape != values.shape:
        raise ValueError(f"need one label per sample, not {values.size} samples and {inverse.size} labels")
    if (values < 0).any() or (values > 1).any():
        raise ValueError("correct must lie in [0, 1]")
    recalls = np.bincount(inverse, weights=values) / counts
    mean = float(recalls.mean())
    squares = np.bincount(inverse, weights=(values - recalls[inverse]) ** 2)
    within = np.where(counts > 1, squares / np.maximum(counts - 1, 1), mean * (1 - mean))
    variance = float((within / counts).sum()) / counts.size**2
    equal_recalls = counts.size**2 / float((1 / counts).sum())
    effective = max(1.0, effective_size(mean, variance, values.size, at_edge=equal_recalls))
    return wilson(mean * effective, effective, level)


def effective_size(p: float, variance: float, n: float, at_edge: float) -> float:
    """The sample size at which p(1 - p) / size is `variance`.

    Near 0 and 1 the estimated variance rests on a handful of rows or on none. Adding the variance of one
    row, as it would be with `at_edge` independent rows, to both sides of the ratio keeps it sensible and
    continuous there, and changes nothing elsewhere.
    """
    one_row = 1 / n
    return (p * (1 - p) + one_row) / (variance + one_row / at_edge)


def _as_vector(values: ArrayLike) -> FloatArray:
    vector = np.asarray(values, dtype=np.float64)
    if vector.ndim != 1:
        raise ValueError(f"need a one-dimensional array, not shape {vector.shape}")
    if not np.isfinite(vector).all():
        raise ValueError("values must be finite numbers")
    return vector
