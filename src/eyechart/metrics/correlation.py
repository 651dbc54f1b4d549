"""Rank and linear correlation; a constant is correlated with nothing."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from eyechart.metrics.vectors import Floats


def pearson(first: ArrayLike, second: ArrayLike) -> float:
    """Linear correlation; 0 where one side does not vary (scipy gives NaN there)."""
    a, b = (_centred(values) for values in (first, second))
    scale = float(np.sqrt(np.sum(a**2) * np.sum(b**2)))
    return float(np.clip(np.sum(a * b) / scale, -1, 1)) if scale > 0 else 0.0


def spearman(first: ArrayLike, second: ArrayLike) -> float:
    """Linear correlation of the ranks, equal values sharing their mean rank: MIEB's ``cosine_spearman``."""
    return pearson(mean_ranks(first), mean_ranks(second))


def mean_ranks(values: ArrayLike) -> Floats:
    """Return ranks from 1; equal values share the mean of their ranks."""
    _, inverse, counts = np.unique(np.asarray(values, np.float64), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[inverse], np.float64)


def _centred(values: ArrayLike) -> Floats:
    array = np.asarray(values, np.float64)
    # Subtracting the mean of equal numbers may leave a rounding error that would correlate with something.
    return np.zeros_like(array) if np.ptp(array) == 0 else array - array.mean()
