"""The search for a regularisation strength that CLIP's linear probes use (Radford et al. 2021, appendix A.3)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from eyechart.metrics.vectors import Floats

POINTS = 97
COARSE = 16
"""The first look goes over every 16th point."""
SPANS = (8, 4, 2, 1)
"""Then the two neighbours of the best point, nearer and nearer."""


def log_grid(low: float, high: float) -> Floats:
    """Return the 97 candidates from 10**low to 10**high, evenly spaced in the exponent."""
    return np.logspace(low, high, POINTS)


def find_peak(score: Callable[[int], float]) -> int:
    """Return the best grid point of a score with one peak, after at most 15 evaluations.

    Among equal scores the one that is looked at first wins, so a smaller value before a larger one. This is what
    CLIP_benchmark does, which evaluates known points again (19 fits).
    """
    known: dict[int, float] = {}

    def best(points: list[int]) -> int:
        place, top = 0, -np.inf
        for point in points:
            if point not in known:
                known[point] = score(point)
            if known[point] > top:
                place, top = point, known[point]
        return place

    peak = best(list(range(0, POINTS, COARSE)))
    for span in SPANS:
        peak = best([max(peak - span, 0), peak, min(peak + span, POINTS - 1)])
    return peak
