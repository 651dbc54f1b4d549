"""Metrics as tasks make them: a value and its interval, if there is one."""

from __future__ import annotations

from typing import Any

from eyechart.stats import Interval
from eyechart.types import Metric

HAIR = 1e-9
"""By so much rounding may put the end of an interval on the wrong side of the value."""


def measured(value: float, interval: Interval | None, **known: Any) -> Metric:
    """Make a metric; without an interval (there are too few samples for one) both of its ends are unknown."""
    if interval is None:
        return Metric(value, **known)
    low, high = interval
    low = value if value < low < value + HAIR else low
    high = value if value - HAIR < high < value else high
    return Metric(value, low, high, **known)
