"""Mean average precision: its jackknife interval and paired test."""

import math

import numpy as np
from numpy.typing import ArrayLike

from eyechart.metrics.classification import average_precision, ranked_positives
from eyechart.metrics.vectors import Flags, Floats
from eyechart.stats.intervals import FEWEST_UNITS, Interval, agresti_coull, student_quantile, two_sided_z, widened_z2
from eyechart.stats.paired_tests import PairedTest, score_test


def mean_average_precision(scores: ArrayLike, targets: ArrayLike) -> float:
    """Mean over classes of `eyechart.metrics.classification.average_precision`, without classes that have no positive.

    `scores` and `targets` are images x classes. NaN if there are no positives at all.
    """
    values, present = _matrices(scores, targets)
    found = [average_precision(*column) for column in zip(values.T, present.T, strict=True) if column[1].any()]
    return float(np.mean(found)) if found else float("nan")


def average_precision_interval(scores: ArrayLike, targets: ArrayLike, level: float = 0.95) -> Interval | None:
    """Interval of `mean_average_precision`: the jackknife's variance, in the form of a proportion's interval.

    If few images with many or rare labels carry most of the variance, its estimate is rough: Student's quantile has
    Satterthwaite's degrees of freedom, from the spread of the squared influences. The average precision of few
    positives is biased upwards, so the interval is for the expectation over test sets of this size, not for an infinite
    one. None if the classes' positives amount to at most four of equal weight.
    """
    value, influences, positives = _jackknife(*_matrices(scores, targets))
    units = positives.size**2 / float((1 / positives).sum())
    if units < FEWEST_UNITS:
        return None
    unseen = 0.1 / float(positives.sum())
    squares = influences**2
    total, n = float(squares.sum()), squares.size
    effective = (value * (1 - value) + unseen) / (total * (1 + 1 / (n - 1)) + unseen / units)
    roughness = float((squares**2).sum()) - total**2 / n
    degrees = max(1.0, 2 * total**2 / roughness) if roughness > 1e-12 * total**2 else math.inf
    student = student_quantile(0.5 + level / 2, degrees) / two_sided_z(level)
    return agresti_coull(value, effective, widened_z2(level, units) * student**2)


def paired_average_precision(
    first: ArrayLike, second: ArrayLike, targets: ArrayLike, *, level: float = 0.95
) -> PairedTest:
    """`paired_test` for the difference of two models' `mean_average_precision` (first - second) on the same images."""
    (one, of_one, _), (two, of_two, _) = (_jackknife(*_matrices(scores, targets)) for scores in (first, second))
    n, difference = of_one.size, one - two
    interval, p_value = score_test(difference, of_one - of_two, np.full(n, 1 / n), level)
    return PairedTest(difference, interval, p_value, n, n)


def _jackknife(values: Floats, present: Flags) -> tuple[float, Floats, Floats]:
    """Return the mean over classes, each image's jackknife influence (they sum to 0) and the classes' positives.

    A class that loses its only positive leaves the mean; one without positives does not count.
    """
    n = len(values)
    judged = np.flatnonzero(present.any(axis=0))
    if judged.size == 0:
        raise ValueError("no class has a positive: there is no average precision")
    precisions, sums, counts = [], np.zeros(n), np.zeros(n)
    for c in judged:
        precision, without = _leave_one_out(values[:, c], present[:, c])
        precisions.append(precision)
        remains = ~np.isnan(without)
        sums[remains] += without[remains]
        counts += remains
    value = float(np.mean(precisions))
    left_out = np.where(counts > 0, sums / np.maximum(counts, 1), value)
    influences = (left_out.mean() - left_out) * (n - 1) / n
    return value, influences, present[:, judged].sum(axis=0).astype(np.float64)


def _leave_one_out(scores: Floats, present: Flags) -> tuple[float, Floats]:
    """Return one class's average precision, and its leave-one-out value for each image (NaN: no positive is left).

    Leaving out an image moves the positives after it one place forward; suffix sums give all cases at once.
    """
    order, places = ranked_positives(scores, present)
    hits = np.arange(1, places.size + 1, dtype=np.float64)
    precisions = hits / (places + 1)
    before = np.maximum(places, 1)  # only a first place has none before it, and nothing left out is before that
    total = precisions.sum()
    behind = np.searchsorted(places, np.arange(scores.size), side="right")  # the next positive after each place
    after_negative, after_positive = (
        np.append(np.cumsum((rest / before - precisions)[::-1])[::-1], 0.0) for rest in (hits, hits - 1)
    )
    ordered = (total + after_negative[behind]) / places.size
    if places.size > 1:
        ordered[places] = (total - precisions + after_positive[behind[places]]) / (places.size - 1)
    else:
        ordered[places] = np.nan
    without = np.empty_like(ordered)
    without[order] = ordered
    return float(precisions.mean()), without


def _matrices(scores: ArrayLike, targets: ArrayLike) -> tuple[Floats, Flags]:
    values, present = np.asarray(scores), np.asarray(targets).astype(bool)
    if values.shape != present.shape or values.ndim != 2 or 0 in values.shape:
        raise ValueError(f"need scores and targets of one shape, images x classes: {values.shape}, {present.shape}")
    if not np.isfinite(values).all():
        raise ValueError("scores must be finite numbers")
    return values, present
