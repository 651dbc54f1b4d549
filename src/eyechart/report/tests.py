"""The statistics of the report: the one place that calls `eyechart.stats` for tests, intervals and ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eyechart import stats
from eyechart.report.records import Floats, Truth

LEVEL = 0.95
POWER = 0.8
ROUNDS = 10_000
PRECISION_ROUNDS = 500
"""Resamples for mean average precision, which must be computed anew for each."""

Units = Sequence[str] | None
holm = stats.holm
mean_average_precision = stats.mean_average_precision


@dataclass(frozen=True)
class PairedOutcome:
    """How much larger the second model's metric is than the first one's, on the same samples."""

    difference: float
    low: float
    high: float
    p_value: float
    test: str
    n: int
    units: int
    """Independent units: images."""
    only_first: int | None = None
    only_second: int | None = None
    """Samples that only one of the two gets right, where each is right or wrong."""
    detectable: float | None = None
    """The smallest true difference that this many samples find four times out of five."""


def paired_test(first: Floats, second: Floats, units: Units, rounds: int = ROUNDS) -> PairedOutcome:
    """Compare two models' numbers for the same samples."""
    boot = stats.paired_bootstrap(second, first, units, rounds=rounds, level=LEVEL)
    p_value, test = boot.p_value, "paired bootstrap"
    only: tuple[int, int] | tuple[None, None] = (None, None)
    detectable: float | None = _detectable(boot.interval)
    if np.isin(first, (0, 1)).all() and np.isin(second, (0, 1)).all():
        only = b, c = stats.discordant((first > 0).tolist(), (second > 0).tolist())
        if units is None:
            p_value, test = stats.mcnemar_exact(b, c), "exact McNemar"
            detectable = stats.smallest_detectable_difference(first.size, (b + c) / first.size, 1 - LEVEL, POWER)
    low, high = boot.interval
    return PairedOutcome(
        boot.difference, low, high, p_value, test, boot.n, boot.n_clusters, only[0], only[1], detectable
    )


def paired_precision(first: Floats, second: Floats, present: Truth) -> PairedOutcome:
    """Compare mean average precision, which is no mean over images: it is computed anew for each resample of them."""
    boot = stats.paired_average_precision(second, first, present, rounds=PRECISION_ROUNDS)
    low, high = boot.interval
    return PairedOutcome(
        boot.difference, low, high, boot.p_value, "paired bootstrap", boot.n, boot.n_clusters,
        detectable=_detectable(boot.interval),
    )  # fmt: skip


def not_separable(scores: Floats, units: Units) -> list[bool]:
    """Mark the models (rows; larger is better) that the best one does not surely beat."""
    return stats.not_separable_from_best([scores], [units], LEVEL)


def rank_intervals(suite: Sequence[Floats]) -> list[tuple[int, int]]:
    """Return the ranks that each model may have over a suite of matrices, models x independent units."""
    return [(rank.low, rank.high) for rank in stats.rank_intervals(suite, level=LEVEL)]


def _detectable(interval: stats.Interval) -> float:
    """The smallest detectable difference that goes with an interval's width."""
    z_level, z_power = stats.normal_quantile(0.5 + LEVEL / 2), stats.normal_quantile(POWER)
    return interval.half_width * (z_level + z_power) / z_level
