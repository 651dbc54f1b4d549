"""How two models differ on the same samples, by a metric that is a mean over records or another function of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from eyechart import stats
from eyechart.report.records import Floats, Truth, numbered

LEVEL = 0.95
POWER = 0.8

Units = Sequence[str] | None


@dataclass(frozen=True)
class PairedOutcome:
    """How much larger the second model's number is than the first one's, on the same samples."""

    difference: float
    low: float | None
    high: float | None
    """None if there are too few independent units for an interval."""
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


def paired_test(first: Floats, second: Floats, units: Units) -> PairedOutcome:
    """Compare two models' numbers for the same samples."""
    scale = max(1.0, float(np.abs([first, second]).max()))  # the test is one of fractions
    clusters = None if units is None else numbered(units)
    found = _outcome(stats.paired_test(second / scale, first / scale, clusters, level=LEVEL), scale)
    if not all(bool(((values == 0) | (values == 1)).all()) for values in (first, second)):
        return found
    only = stats.discordant(first > 0, second > 0)
    detectable = found.detectable
    if units is None and found.low is not None:  # where there is no interval, nothing can be told apart
        detectable = stats.smallest_detectable_difference(first.size, sum(only) / first.size, 1 - LEVEL, POWER)
    return replace(found, only_first=only[0], only_second=only[1], detectable=detectable)


def paired_precision(first: Floats, second: Floats, present: Truth) -> PairedOutcome:
    """Compare mean average precision, which is no mean over images: each is left out in turn."""
    return _outcome(stats.paired_average_precision(second, first, present, level=LEVEL))


def paired_precision_of_all(first: Floats, second: Floats, present: Truth) -> PairedOutcome:
    """Compare mean average precision where a class without positives counts 0."""
    return _outcome(stats.paired_average_precision(second, first, present, level=LEVEL), _share_judged(present))


def precision_of_all(scores: Floats, present: Truth) -> float:
    """Return mean average precision where a class without positives counts 0."""
    return _share_judged(present) * stats.mean_average_precision(scores, present)


def _share_judged(present: Truth) -> float:
    return float(np.asarray(present).any(axis=0).mean())


def _outcome(found: stats.PairedTest, scale: float = 1.0) -> PairedOutcome:
    low = high = detectable = None
    if found.interval is not None:
        low, high = (scale * end for end in found.interval)
        z_level, z_power = stats.normal_quantile(0.5 + LEVEL / 2), stats.normal_quantile(POWER)
        detectable = (high - low) / 2 * (z_level + z_power) / z_level
    return PairedOutcome(
        scale * found.difference, low, high, found.p_value, found.test, found.n, found.n_clusters, detectable=detectable
    )


@dataclass(frozen=True)
class RecordFunction:
    """How a metric follows from the scores of all classes and what is true, and how two models differ by it."""

    value: Callable[[Floats, Truth], float]
    compare: Callable[[Floats, Floats, Truth], PairedOutcome]


FUNCTIONS: Mapping[str, RecordFunction] = {
    "mean_average_precision": RecordFunction(stats.mean_average_precision, paired_precision),
    "mean_average_precision_of_all_classes": RecordFunction(precision_of_all, paired_precision_of_all),
}
"""By the name that results give it."""
