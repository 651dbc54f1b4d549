"""Numbers as people read them: fractions as per cent, everything else as it is. Files keep what was measured."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal

from eyechart.types import Metric

_EXACT = Context(prec=400)
"""Digits enough for any number that a computer holds."""
FINE = 4
"""Digits of a number that is no per cent, where a table shows per cent with two."""


def is_fraction(metric: Metric) -> bool:
    """Tell whether a number is shown as per cent: a fraction that does not say it is something else."""
    return not metric.points and 0 <= metric.value <= 1


def fixed(value: float, digits: int) -> str:
    """Write a number with so many digits; halves go up, as they do in JavaScript, so that the page shows the same."""
    return str(Decimal(value).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP, _EXACT))


def shown(value: float, digits: int = 1, *, percent: bool = True) -> str:
    """Write a number, a fraction as per cent."""
    return fixed(100 * value if percent else value, digits)


def spread(metric: Metric, digits: int = 1, *, percent: bool = True) -> str:
    """Write how far an interval reaches: ``±2.6`` if both sides read the same, else ``-39.7 +0.0``; nothing if none."""
    if metric.low is None or metric.high is None:
        return ""
    below, above = (
        shown(max(0.0, side), digits, percent=percent)
        for side in (metric.value - metric.low, metric.high - metric.value)
    )
    return f"±{above}" if below == above else f"-{below} +{above}"


def level(metric: Metric, value: float | None) -> str:
    """Write a metric's value, an end of its interval or its chance in the unit of the metric; nothing for None."""
    if value is None:
        return ""
    percent = is_fraction(metric)
    return shown(value, 2 if percent else FINE, percent=percent)


def with_unit(metric: Metric, value: float | None = None) -> str:
    """Write a metric's value, or another one of it, with its unit."""
    return f"{level(metric, metric.value if value is None else value)}{' %' if is_fraction(metric) else ''}"
