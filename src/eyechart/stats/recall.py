"""The interval of mean per-class recall."""

import numpy as np
from numpy.typing import ArrayLike

from eyechart.stats.intervals import FEWEST_UNITS, Interval, widened_z2


def mean_recall_interval(correct: ArrayLike, labels: ArrayLike, level: float = 0.95) -> Interval | None:
    """Interval for mean per-class recall (sklearn's balanced accuracy), the classes taken as strata.

    It is Price and Bonett's (2004) for a mean of several shares: z squared more samples, half of them right, dealt
    among the classes that decide the width. A class with a single sample, whose spread nobody can see, takes that of
    the mean recall, which is the largest it can be on average: where most classes have one sample and recalls differ
    much, the interval covers more than it says.

    None if the classes' samples tell no more than four of equal weight: a class of one sample and one other class.
    """
    values = np.asarray(correct, dtype=np.float64)
    _, inverse, counts = np.unique(np.asarray(labels), return_inverse=True, return_counts=True)
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
