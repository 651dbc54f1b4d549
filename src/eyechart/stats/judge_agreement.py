"""Agreement of judges beyond chance (Cohen's kappa, Krippendorff's alpha), and intervals that include the judges."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from eyechart.metrics.vectors import Flags, Floats
from eyechart.stats.intervals import FEWEST_UNITS, Interval, cluster_index, student_quantile, widen

Statistic = Callable[[Floats], Floats]
"""A function of the sums of rows: one number per row of sums."""


@dataclass(frozen=True)
class Agreement:
    """Agreement of verdicts beyond chance."""

    value: float | None
    interval: Interval | None
    n: int
    """Answers with two or more readable verdicts."""


def cohen_kappa(
    first: ArrayLike, second: ArrayLike, clusters: ArrayLike | None = None, *, graded: bool = False
) -> Agreement:
    """Cohen's kappa of two judges' verdicts (sklearn's ``cohen_kappa_score``); NaN is a missing verdict.

    ``clusters`` groups answers that are not independent. With ``graded`` a disagreement weighs as much as the squared
    difference; by default all weigh the same.
    """
    one, two = np.asarray(first, np.float64), np.asarray(second, np.float64)
    both = ~(np.isnan(one) | np.isnan(two))
    one, two = one[both], two[both]
    rows, kappa = _graded_pairs(one, two) if graded else _named_pairs(one, two)
    return _with_interval(rows, kappa, clusters if clusters is None else np.asarray(clusters)[both])


def _named_pairs(one: Floats, two: Floats) -> tuple[Floats, Statistic]:
    """One-hot encode each pair of verdicts, and return kappa as a function of the sums."""
    levels, codes = np.unique(np.concatenate([one, two]), return_inverse=True)
    count, n = levels.size, one.size
    cells = np.zeros((n, count * count))
    cells[np.arange(n), codes[:n] * count + codes[n:]] = 1

    def kappa(sums: Floats) -> Floats:
        table = sums.reshape(-1, count, count)
        total = table.sum(axis=(1, 2))
        agreeing = np.einsum("bii->b", table)
        expected = total - np.einsum("bi,bi->b", table.sum(axis=2), table.sum(axis=1)) / total
        return np.asarray(1 - (total - agreeing) / expected)

    return cells, kappa


def _graded_pairs(one: Floats, two: Floats) -> tuple[Floats, Statistic]:
    """Return the moments of each pair of grades, and kappa as a function of their sums, for any number of grades."""
    middle = float(np.mean([one, two])) if one.size else 0.0
    a, b = one - middle, two - middle

    def kappa(sums: Floats) -> Floats:
        total, apart, first, second, squares = sums.T
        return np.asarray(1 - apart / (squares - 2 * first * second / total))

    return np.column_stack([np.ones_like(a), (a - b) ** 2, a, b, a**2 + b**2]), kappa


def krippendorff_alpha(verdicts: ArrayLike, clusters: ArrayLike | None = None, *, graded: bool = False) -> Agreement:
    """Krippendorff's alpha of judges (rows) on answers (columns); NaN is a missing verdict.

    Nominal alpha by default; ``graded`` selects the interval scale.
    """
    table = np.asarray(verdicts, np.float64)
    present = ~np.isnan(table)
    pairable = present.sum(axis=0) >= 2
    table, present = table[:, pairable], present[:, pairable]
    rows, alpha = _graded_units(table, present) if graded else _named_units(table, present)
    return _with_interval(rows, alpha, clusters if clusters is None else np.asarray(clusters)[pairable])


def _named_units(table: Floats, present: Flags) -> tuple[Floats, Statistic]:
    """Count the verdicts and the disagreeing pairs of each answer, and return alpha as a function of the sums."""
    levels = np.unique(table[present])
    counts = np.stack([np.zeros(table.shape[1]), *((table == level).sum(axis=0) for level in levels)], axis=1)
    sizes = counts.sum(axis=1)
    apart = (sizes**2 - (counts**2).sum(axis=1)) / np.maximum(sizes - 1, 1)

    def alpha(sums: Floats) -> Floats:
        seen, totals = sums[:, 0], sums[:, 1:]
        n = totals.sum(axis=1)
        return np.asarray(1 - seen / ((n**2 - (totals**2).sum(axis=1)) / (n - 1)))

    return np.column_stack([apart, counts]), alpha


def _graded_units(table: Floats, present: Flags) -> tuple[Floats, Statistic]:
    """Return the moments of each answer's grades, and alpha as a function of their sums, for any number of grades."""
    middle = float(table[present].mean()) if present.any() else 0.0
    grades = np.where(present, table - middle, 0.0)
    sizes, sums, squares = present.sum(axis=0), grades.sum(axis=0), (grades**2).sum(axis=0)
    apart = (sizes * squares - sums**2) / np.maximum(sizes - 1, 1)

    def alpha(rows: Floats) -> Floats:
        seen, n, first, second = rows.T
        return np.asarray(1 - seen / ((n * second - first**2) / (n - 1)))

    return np.column_stack([apart, sizes, sums, squares]), alpha


def _with_interval(rows: Floats, statistic: Statistic, clusters: ArrayLike | None) -> Agreement:
    """Compute a statistic of the sums of rows, with a jackknife interval over clusters.

    The interval is symmetric on Fisher's scale, on which agreement near 1 is unbounded. It allows for the effect of one
    more cluster: judges without a disagreement so far may still have one.
    """
    n = rows.shape[0]
    if n == 0:
        return Agreement(None, None, 0)
    index, sizes = cluster_index(clusters, n)
    sums = np.stack([np.bincount(index, weights=column) for column in rows.T], axis=1)
    whole = sums.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        value = float(statistic(whole[None])[0])
        if not math.isfinite(value):
            return Agreement(None, None, n)
        units = n**2 / float((sizes**2).sum())
        if units < FEWEST_UNITS:
            return Agreement(value, None, n)
        without = statistic(whole - sums)
    without = without[np.isfinite(without)]  # without its only disagreement, nothing tells agreement from a constant
    variance = float(((without - without.mean()) ** 2).sum()) * (sizes.size - 1) / sizes.size
    unseen = 1 / units
    inside = max(-1 + unseen, min(1 - unseen, value))
    spread = math.sqrt(variance + unseen**2) / (1 - inside**2)
    half = student_quantile(0.975, units - 1) * spread
    low, high = (math.tanh(math.atanh(inside) + side * half) for side in (-1, 1))
    return Agreement(value, Interval(min(low, value), max(high, value)), n)


FEWEST_JUDGES = 3
MAJORITY = (4.0, 1.5)
"""Extra variance of a majority vote over a mean over judges, divided by the number of judges: for an even number, where
a tie counts as wrong, and for an odd one. By simulation (`make coverage`)."""


def between_judges(verdicts: ArrayLike) -> float:
    """Return the variance of a judge's mean score, of judges (rows) on the same questions (columns).

    This is the variance of the judges' means minus the part explained by the noise of single verdicts, which is already
    part of every interval over questions.
    """
    table = np.asarray(verdicts, np.float64)
    noise = table.var(axis=0, ddof=1).mean() / table.shape[1]
    return max(0.0, float(table.mean(axis=1).var(ddof=1) - noise))


def widen_for_judges(interval: Interval, verdicts: ArrayLike, level: float = 0.95) -> Interval | None:
    """Widen the interval of a majority vote over questions for the choice of judges, drawn from a large population.

    The variances of questions and judges add up. Judges are few, so Student's quantile applies, with Satterthwaite's
    degrees of freedom for the sum. A single judge gives no estimate of the variance between judges: the interval is
    unchanged. Two judges give too rough an estimate: None.
    """
    table = np.asarray(verdicts, np.float64)
    judges, questions = table.shape
    if 1 < judges < FEWEST_JUDGES:
        return None
    extra = between_judges(table) * (1 + MAJORITY[judges % 2] / judges) / judges if judges > 1 else 0.0
    if extra == 0:
        return interval
    return widen(interval, questions, extra, judges, level)
