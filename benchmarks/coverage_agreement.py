"""The shapes of `coverage.py` with two or more judges of the same answers: kappa and alpha, of verdicts and grades."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from coverage_shapes import LARGE, Rng, Shape
from numpy.typing import NDArray

from eyechart import stats

Draw = Callable[[Rng, int], NDArray[np.float64]]
Measure = Callable[[NDArray[np.float64], Any], stats.Agreement]


def agreeing() -> Iterator[Shape]:
    for n, judges, share, right in [
        (20, 2, 0.5, 0.9), (50, 2, 0.5, 0.9), (50, 2, 0.5, 0.98), (200, 2, 0.5, 0.7), (200, 2, 0.9, 0.95),
        (1000, 2, 0.8, 0.9), (50, 3, 0.5, 0.9), (200, 3, 0.8, 0.9), (1000, 4, 0.5, 0.98),
    ]:  # fmt: skip
        name = f"n = {n}, {judges} judges, {share:g} right, verdicts {right:g} right"
        yield from _shapes(name, n, 1, _verdicts(judges, share, right), graded=False)
    for n, each in [(30, 8), (200, 4)]:
        name = f"n = {n} x {each} answers to one question, 2 judges, 0.6 right, verdicts 0.9 right"
        yield from _shapes(name, n, each, _verdicts(2, 0.6, 0.9, each), graded=False)
    for n, judges, noise in [(20, 2, 1.0), (50, 2, 2.0), (200, 3, 1.0), (1000, 2, 0.3)]:
        yield from _shapes(
            f"n = {n}, {judges} judges, grades, noise {noise:g}", n, 1, _grades(judges, noise), graded=True
        )


def _verdicts(judges: int, share: float, right: float, each: int = 1) -> Draw:
    def draw(rng: Rng, n: int) -> NDArray[np.float64]:
        truth = np.repeat(rng.random(n) < share, each)
        hard = np.repeat(np.where(rng.random(n) < 0.5, 1, 0), each) if each > 1 else 0
        sure = np.where(hard == 1, 2 * right - 1, right)
        return np.where(rng.random((judges, n * each)) < sure, truth, ~truth).astype(np.float64)

    return draw


def _grades(judges: int, noise: float) -> Draw:
    def draw(rng: Rng, n: int) -> NDArray[np.float64]:
        return np.clip(np.round(rng.normal(6, 2, n) + rng.normal(0, noise, (judges, n))), 0, 10)

    return draw


def _shapes(name: str, n: int, each: int, draw: Draw, *, graded: bool) -> Iterator[Shape]:
    clusters = np.repeat(np.arange(n), each) if each > 1 else None
    measures: dict[str, Measure] = {
        "alpha": lambda table, groups: stats.krippendorff_alpha(table, groups, graded=graded),
        "kappa": lambda table, groups: stats.cohen_kappa(table[0], table[1], groups, graded=graded),
    }
    for kind, measure in measures.items():
        if kind == "kappa" and "2 judges" not in name:
            continue
        results, truth = _results(measure, draw, n, clusters), _truth(measure, draw, each)
        yield Shape(kind, name, results, truth, cost=4 if n >= 1000 else 1)


def _results(measure: Measure, draw: Draw, n: int, clusters: Any) -> Any:
    def results(rng: Rng, rounds: int) -> Iterator[stats.Interval | None]:
        for _ in range(rounds):
            found = measure(draw(rng, n), clusters)
            if found.value is not None:  # all verdicts equal: undefined
                yield found.interval

    return results


def _truth(measure: Measure, draw: Draw, each: int) -> Any:
    def truth(rng: Rng) -> float:
        return measure(draw(rng, LARGE // each), None).value or 0.0

    return truth


AGREEMENT = [agreeing]
