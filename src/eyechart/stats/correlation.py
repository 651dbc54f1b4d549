"""The interval of a correlation, linear or of ranks."""

import math

import numpy as np
from numpy.typing import ArrayLike

from eyechart.metrics.correlation import mean_ranks, pearson
from eyechart.metrics.vectors import Floats
from eyechart.stats.intervals import Interval
from eyechart.stats.quantiles import two_sided_z

_FEWEST_PAIRS = 8


def correlation_interval(
    first: ArrayLike, second: ArrayLike, *, of_ranks: bool = False, level: float = 0.95
) -> Interval | None:
    """Fisher's interval for Pearson's correlation, or with `of_ranks` for Spearman's.

    Its variance is the larger of two: that of the normal distribution (widened for ranks as Bonett and Wright, 2000,
    do it), and that which the pairs themselves show, since heavier tails make it larger. Pearson's correlation of
    scores without bounds and with tails like Student's of 3 degrees has no interval that holds: prefer ranks there.

    None below eight pairs, for a perfect correlation, and if one side does not vary.
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    n = a.size
    if n < _FEWEST_PAIRS or np.ptp(a) == 0 or np.ptp(b) == 0:
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
    """What each pair adds to the correlation, times n; a pair also moves the ranks of all that stand above it."""
    u, v = ((side - side.mean()) / side.std() for side in (a, b))
    out = u * v - value * (u**2 + v**2) / 2
    if of_ranks:
        out = out + _through_ranks(a, v - value * u) + _through_ranks(b, u - value * v)
    return np.asarray(out)


def _through_ranks(ranks: Floats, slopes: Floats) -> Floats:
    """How a pair moves the correlation by raising the ranks above its own by one, and equal ones by a half."""
    order = np.argsort(ranks, kind="stable")
    above = np.append(np.cumsum(slopes[order][::-1])[::-1], 0.0)
    starts = np.flatnonzero(np.diff(ranks[order], prepend=-np.inf))
    ends = np.append(starts[1:], ranks.size)
    out = np.empty(ranks.size)
    out[order] = np.repeat(above[starts] + above[ends], ends - starts)
    return np.asarray(out / 2 / ranks.std())
