"""The interval of a number that several judges made: others would have made another."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from eyechart.stats.intervals import Interval
from eyechart.stats.quantiles import student_quantile, two_sided_z

FEWEST_JUDGES = 3
MAJORITY = (4.0, 1.5)
"""The number of a majority varies more with the choice of judges than a mean over judges would, by this over their
number: for an even number, where a tie counts as wrong, and for an odd one. By simulation (`make coverage`)."""


def between_judges(verdicts: ArrayLike) -> float:
    """Return the variance of a judge's own number, of judges (rows) on the same questions (columns).

    That is how far the judges' means lie apart, less what the noise of single verdicts alone would put between them:
    that noise is in every interval over questions already.
    """
    table = np.asarray(verdicts, np.float64)
    noise: float = table.var(axis=0, ddof=1).mean() / table.shape[1]
    apart: float = table.mean(axis=1).var(ddof=1)
    return max(0.0, float(apart - noise))


def widen_for_judges(interval: Interval, verdicts: ArrayLike, level: float = 0.95) -> Interval | None:
    """Widen an interval over questions, of what the majority says, for the choice of judges, drawn from many.

    The variances of questions and judges add up. Judges are few, so Student's quantile is taken, with as many degrees
    of freedom as Satterthwaite gives to the sum. One judge cannot show how others would differ: nothing is added. Two
    cannot show how far: None.
    """
    table = np.asarray(verdicts, np.float64)
    judges, questions = table.shape
    if 1 < judges < FEWEST_JUDGES:
        return None
    extra = between_judges(table) * (1 + MAJORITY[judges % 2] / judges) / judges if judges > 1 else 0.0
    if extra == 0:
        return interval
    own = (interval.half_width / two_sided_z(level)) ** 2
    freedom = (own + extra) ** 2 / (own**2 / max(1, questions - 1) + extra**2 / (judges - 1))
    half = student_quantile(0.5 + level / 2, max(1.0, freedom)) * math.sqrt(own + extra)
    half, middle = max(half, interval.half_width), (interval.low + interval.high) / 2
    return Interval(max(0.0, middle - half), min(1.0, middle + half))
