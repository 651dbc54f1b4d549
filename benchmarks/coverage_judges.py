"""The shapes of `coverage.py` with judges: they err, they are more or less lenient, and they may be asked repeatedly.

The truth is what the panel's number is on average over questions and over panels of as many judges. A question is
answered right with its own chance, drawn each time; a judge's verdict depends on the answer, on how clear it is, and on
the judge.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from coverage_shapes import Rng, Shape
from numpy.typing import NDArray

from eyechart import stats

Verdicts = NDArray[np.float64]
PANELS, QUESTIONS = 800, 1000
"""For the truth."""


def judged() -> Iterator[Shape]:
    for judges, verdicts, answers, n, apart in [
        (1, 1, 1, 200, 0.0), (1, 3, 1, 200, 0.0), (1, 1, 4, 200, 0.0), (1, 3, 4, 500, 0.0),
        (2, 1, 1, 400, 0.0), (2, 1, 1, 400, 0.3), (3, 1, 1, 200, 0.0), (3, 1, 1, 200, 0.3), (3, 1, 1, 1000, 0.3),
        (3, 1, 1, 1000, 0.6), (3, 1, 1, 1000, 1.0), (3, 3, 1, 400, 0.3), (3, 3, 4, 400, 0.3), (4, 1, 1, 400, 0.3),
        (4, 1, 1, 1000, 0.6), (5, 1, 1, 400, 0.3), (5, 1, 2, 1000, 0.6), (7, 1, 1, 1000, 0.6),
    ]:  # fmt: skip
        draw = _panel(judges, verdicts, answers, apart)
        name = f"n = {n}, {judges} judges x {verdicts} verdicts, {answers} answers each, leniency {apart:g}"
        yield Shape("judged", name, _results(draw, n), _truth(draw), cost=4 if answers > 1 else 2)


def _panel(judges: int, verdicts: int, answers: int, apart: float) -> Any:
    def draw(rng: Rng, n: int) -> tuple[Verdicts, Verdicts]:
        """Draw a panel; return the correctness of each question by the panel, and by each judge alone."""
        lenient = rng.normal(0, apart, judges)
        right = rng.random((answers, n)) < rng.beta(2, 1.3, n)
        clear = np.where(rng.random((answers, n)) < 0.3, 0.6, 2.2)
        logit = np.where(right, clear, -clear)[:, None, None] + lenient[:, None, None]
        said = rng.random((answers, judges, verdicts, n)) < 1 / (1 + np.exp(-logit))
        each = _majority(said, axis=2)
        return _majority(each, axis=1).mean(axis=0), each.mean(axis=0)

    return draw


def _majority(verdicts: NDArray[Any], axis: int) -> NDArray[Any]:
    """Return the lower median: a tie is wrong."""
    return np.take(np.sort(verdicts, axis=axis), (verdicts.shape[axis] - 1) // 2, axis=axis)


def _results(draw: Any, n: int) -> Any:
    def results(rng: Rng, rounds: int) -> Iterator[stats.Interval | None]:
        for _ in range(rounds):
            panel, each = draw(rng, n)
            interval = stats.mean_interval(panel)
            yield interval and stats.widen_for_judges(interval, each)

    return results


def _truth(draw: Any) -> Any:
    return lambda rng: float(np.mean([draw(rng, QUESTIONS)[0].mean() for _ in range(PANELS)]))


JUDGED = [judged]
