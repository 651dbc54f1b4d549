"""Mean average precision and its interval, by resampling images."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eyechart.stats.bootstrap import PairedDifference, bootstrap_draws
from eyechart.stats.intervals import FloatArray, Interval, effective_size, wilson
from eyechart.stats.quantiles import normal_cdf, two_sided_z


class _RankedClass(NamedTuple):
    """One class with its images in falling order of score."""

    order: NDArray[np.intp]
    positives: NDArray[np.intp]  # places of the right images in that order
    tie_ends: NDArray[np.intp]  # for each of them, the last place with the same score


def mean_average_precision(scores: ArrayLike, targets: ArrayLike, weights: ArrayLike | None = None) -> float:
    """Mean over classes of sklearn's `average_precision_score`; classes without a positive are left out.

    `scores` and `targets` are images x classes, `weights` has one number for each image. NaN when there is no
    positive at all.
    """
    classes, n = _rank(scores, targets)
    row = np.ones((1, n)) if weights is None else np.asarray(weights, dtype=np.float64).reshape(1, n)
    return float(_mean_over_classes(classes, row)[0])


def average_precision_interval(
    scores: ArrayLike, targets: ArrayLike, *, rounds: int = 1000, level: float = 0.95, seed: int = 0
) -> Interval:
    """Interval of `mean_average_precision`, with the spread that resampling whole images gives.

    AP of few positives is biased upwards, and a resample of them once more, so that percentiles of the
    resamples would miss: only their variance is used, in Wilson's form. The interval is for what test sets
    of this size give on average, not for an endless one.
    """
    classes, n = _rank(scores, targets)
    estimate = float(_mean_over_classes(classes, np.ones((1, n)))[0])
    if np.isnan(estimate):
        raise ValueError("no class has a positive: there is no average precision")
    draws = bootstrap_draws(lambda weights: _mean_over_classes(classes, weights), n, rounds, seed)
    relevant = int(np.asarray(targets).astype(bool).any(axis=1).sum())
    effective = effective_size(estimate, float(np.nanvar(draws)), relevant, at_edge=relevant)
    return wilson(estimate * effective, effective, level)


def paired_average_precision(
    first: ArrayLike, second: ArrayLike, targets: ArrayLike, *, rounds: int = 1000, level: float = 0.95, seed: int = 0
) -> PairedDifference:
    """Interval and two-sided p-value for the difference of two models' `mean_average_precision` (first - second).

    Both models are scored on the same resampled images. As for one model, only the spread of the resamples is used,
    with the normal distribution.
    """
    ranked, n = _rank(first, targets)
    other, _ = _rank(second, targets)

    def gain(weights: FloatArray) -> FloatArray:
        return _mean_over_classes(ranked, weights) - _mean_over_classes(other, weights)

    estimate = float(gain(np.ones((1, n)))[0])
    if np.isnan(estimate):
        raise ValueError("no class has a positive: there is no average precision")
    spread = float(np.nanstd(bootstrap_draws(gain, n, rounds, seed)))
    half = two_sided_z(level) * spread if spread > 0 else wilson(0, n, level).high
    p_value = 2 * normal_cdf(-abs(estimate) / spread) if spread > 0 else 1.0
    interval = Interval(max(-1.0, estimate - half), min(1.0, estimate + half))
    return PairedDifference(estimate, interval, p_value, n, n)


def _rank(scores: ArrayLike, targets: ArrayLike) -> tuple[list[_RankedClass], int]:
    values, right = np.asarray(scores, dtype=np.float64), np.asarray(targets).astype(bool)
    if values.shape != right.shape or values.ndim != 2 or 0 in values.shape:
        raise ValueError(f"need scores and targets of one shape, images x classes: {values.shape}, {right.shape}")
    if not np.isfinite(values).all():
        raise ValueError("scores must be finite numbers")
    return [_rank_class(values[:, c], right[:, c]) for c in range(values.shape[1])], len(values)


def _rank_class(scores: FloatArray, targets: NDArray[np.bool_]) -> _RankedClass:
    order = np.argsort(-scores, kind="stable")
    positives = np.flatnonzero(targets[order])
    falling = -scores[order]
    tie_ends = np.searchsorted(falling, falling[positives], side="right") - 1
    return _RankedClass(order, positives, tie_ends)


def _mean_over_classes(classes: list[_RankedClass], weights: FloatArray) -> FloatArray:
    total, counted = np.zeros(len(weights)), np.zeros(len(weights))
    for ranked in classes:
        average, exists = _weighted_average_precision(ranked, weights)
        total += average
        counted += exists
    return np.where(counted > 0, total / np.maximum(counted, 1), np.nan)


def _weighted_average_precision(ranked: _RankedClass, weights: FloatArray) -> tuple[FloatArray, NDArray[np.bool_]]:
    """AP for each row of weights, 0 where the row drew no positive; and whether it drew one."""
    if ranked.positives.size == 0:
        return np.zeros(len(weights)), np.zeros(len(weights), dtype=bool)
    in_order = weights[:, ranked.order]
    drawn = in_order[:, ranked.positives]
    above = np.cumsum(in_order, axis=1)[:, ranked.tie_ends]
    # Positives up to the end of the tie: counted among the positives themselves.
    last = np.searchsorted(ranked.positives, ranked.tie_ends, side="right") - 1
    hits = np.cumsum(drawn, axis=1)[:, last]
    sums = drawn.sum(axis=1)
    precision = hits / np.where(above > 0, above, 1.0)
    return (drawn * precision).sum(axis=1) / np.where(sums > 0, sums, 1.0), sums > 0
