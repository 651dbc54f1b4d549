"""One paired test for every kind of score: its p-value and its interval come from the same statistic."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from eyechart.metrics.vectors import Floats
from eyechart.stats.intervals import Interval, as_vector, cluster_index, widened_z2
from eyechart.stats.quantiles import normal_cdf, two_sided_z

NAME = "paired score test"


class PairedTest(NamedTuple):
    """How much better the first model is than the second on the same samples."""

    difference: float
    interval: Interval | None
    """None if there are too few independent units."""
    p_value: float
    """Two-sided; below 1 - level exactly when the interval excludes 0."""
    n: int
    n_clusters: int
    test: str = NAME


def paired_test(
    first: ArrayLike, second: ArrayLike, clusters: ArrayLike | None = None, *, level: float = 0.95
) -> PairedTest:
    """Test whether mean(first) - mean(second) over the same samples is 0, and give its interval.

    `clusters` names each sample's cluster (its image), whose samples need not be independent. Scores lie in [0, 1].
    For rights and wrongs the statistic is McNemar's, (b - c)^2 / (b + c).
    """
    a, b = as_vector(first), as_vector(second)
    if a.shape != b.shape or a.size == 0:
        raise ValueError(f"paired samples need two equal, non-empty lists, not {a.shape} and {b.shape}")
    index, sizes = cluster_index(clusters, a.size)
    gains = a - b if clusters is None else np.bincount(index, weights=a - b)
    difference = float((a - b).mean())
    interval, p_value = score_test(difference, (gains - difference * sizes) / a.size, sizes / a.size, level)
    return PairedTest(difference, interval, p_value, a.size, sizes.size)


def score_test(difference: float, influences: Floats, shares: Floats, level: float) -> tuple[Interval | None, float]:
    """The interval and the p-value of 0 for a mean of independent units.

    `influences` says what each unit adds to the difference (their sum is 0), `shares` what part of all rows it has
    (their sum is 1). The statistic for a hypothetical difference is the squared distance over the squares of what
    the units would add if it were true: no variance has to be estimated, and no lopsided cluster can hide its own.
    Away from the estimate the variance also grows as the skewness of the units says (for rights and wrongs: as
    Wilson's). A limit of the interval is where the statistic reaches its quantile, so p-value and interval agree.

    There is no interval below six units of equal size: the signs of five can all agree by chance in 1 of 16 cases.
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
        # Units that all agree tell the most that so many can tell.
        p_value = min(1.0, 2 * normal_cdf(-math.sqrt(min(found, 1 / concentration) / widening)))
    if z2 * concentration >= 1:
        return None, p_value
    return Interval(max(-1.0, difference - limit(-1)), min(1.0, difference + limit(1))), p_value


def _root(square: float, linear: float, constant: float) -> float:
    """The positive solution of square * x^2 = linear * x + constant."""
    return (linear + math.sqrt(linear**2 + 4 * square * constant)) / (2 * square)
