"""The shapes of `coverage.py`: simulated results with a known truth, and the coverage of their intervals."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from eyechart import stats

Rng = np.random.Generator
Result = stats.Interval | stats.PairedTest | None
LARGE = 200_000
"""Samples for a truth that has no formula."""
FEWEST_ROUNDS = 4000
"""Draws of every shape, however slow it is: the coverage is then known within 0.7 points."""


class Shape(NamedTuple):
    """How to draw results of one shape, and what their intervals should cover."""

    interval: str
    name: str
    results: Callable[[Rng, int], Iterator[Result]]
    truth: Callable[[Rng], float]
    paired: bool = False
    cost: float = 1.0
    """Divisor of the draws above `FEWEST_ROUNDS`."""


class Row(NamedTuple):
    """Counts of one shape."""

    interval: str
    shape: str
    rounds: int
    covers: float
    """Coverage of the intervals; NaN if there was none."""
    too_few: float
    false_alarms: float | None
    """For a paired test of equal models: the share of p-values below 0.05."""


def measure(shape: Shape, rounds: int, seed: int) -> Row:
    """Draw one shape repeatedly."""
    rng = np.random.default_rng([seed, zlib.crc32(f"{shape.interval}{shape.name}".encode())])
    rounds = max(min(rounds, FEWEST_ROUNDS), round(rounds / shape.cost))
    truth = shape.truth(rng)
    covered, missing, alarms = 0, 0, 0
    for found in shape.results(rng, rounds):
        interval = found.interval if isinstance(found, stats.PairedTest) else found
        if isinstance(found, stats.PairedTest):
            alarms += found.p_value < 0.05
        if interval is None:
            missing += 1
        else:
            covered += interval.low <= truth + 1e-12 and interval.high >= truth - 1e-12
    given = rounds - missing
    equal = shape.paired and truth == 0
    covers = covered / given if given else float("nan")
    return Row(shape.interval, shape.name, rounds, covers, missing / rounds, alarms / rounds if equal else None)


def fixed(value: float) -> Callable[[Rng], float]:
    return lambda rng: value  # noqa: ARG005 - one signature for every truth


def shares() -> Iterator[Shape]:
    for n, p in [
        (5, 0.5), (5, 0.9), (10, 0.7), (10, 0.99), (20, 0.5), (20, 0.95), (50, 0.02), (50, 0.8), (100, 0.99),
        (200, 0.5), (200, 0.995), (1000, 0.947), (2000, 0.3), (2000, 0.999),
    ]:  # fmt: skip
        yield Shape("proportion", f"n = {n}, p = {p}", _shares(n, p), fixed(p))


def _shares(n: int, p: float) -> Any:
    return lambda rng, rounds: (stats.proportion(int(hits), n) for hits in rng.binomial(n, p, rounds))


GEOMETRIC = [1] * 150 + [2] * 75 + [4] * 37 + [8] * 19 + [16] * 9 + [32] * 5 + [64] * 2
ZIPF = [max(1, 200 // k) for k in range(1, 101)]
CLUSTERS = {
    "5 of 20": [20] * 5,
    "8 of 10": [10] * 8,
    "10 of 20": [20] * 10,
    "20 of 5": [5] * 20,
    "60 of 3 to 7": [3, 4, 5, 6, 7] * 12,
    "200 of 5": [5] * 200,
    "400 of 5": [5] * 400,
    "1 of 200, 49 of 1": [200] + [1] * 49,
    "1 of 50, 50 of 1": [50] + [1] * 50,
    "1 of 20, 80 of 1": [20] + [1] * 80,
    "1 of 100, 900 of 1": [100] + [1] * 900,
    "100 of 200 / k": ZIPF,
    "297 of 1 to 64": GEOMETRIC,
}


def clustered() -> Iterator[Shape]:
    for name, p, correlation in [
        ("5 of 20", 0.5, 0.3), ("8 of 10", 0.5, 0.3), ("8 of 10", 0.9, 0.9), ("10 of 20", 0.8, 0.1),
        ("20 of 5", 0.5, 0.0), ("20 of 5", 0.8, 0.3), ("60 of 3 to 7", 0.5, 0.0), ("60 of 3 to 7", 0.9, 0.3),
        ("60 of 3 to 7", 0.8, 0.9), ("200 of 5", 0.97, 0.3), ("200 of 5", 0.5, 0.9), ("400 of 5", 0.97, 0.1),
        ("400 of 5", 0.1, 0.9), ("1 of 200, 49 of 1", 0.5, 0.3), ("1 of 50, 50 of 1", 0.9, 0.9),
        ("1 of 20, 80 of 1", 0.5, 0.1), ("1 of 20, 80 of 1", 0.8, 0.3), ("1 of 100, 900 of 1", 0.9, 0.1),
        ("100 of 200 / k", 0.5, 0.1), ("100 of 200 / k", 0.8, 0.3), ("297 of 1 to 64", 0.9, 0.9),
        ("297 of 1 to 64", 0.5, 0.3),
    ]:  # fmt: skip
        sizes = CLUSTERS[name]
        draw = _clustered(np.array(sizes), p, correlation)
        yield Shape("mean_interval, clusters", f"{name}, p = {p}, correlation {correlation}", draw, fixed(p))


def _clustered(sizes: Any, p: float, correlation: float) -> Any:
    """Rights and wrongs; `correlation` is that of two rows of one cluster (beta-binomial)."""
    rows = np.repeat(np.arange(sizes.size), sizes)

    def results(rng: Rng, rounds: int) -> Iterator[Result]:
        for _ in range(rounds):
            rate = p
            if correlation:
                strength = (1 - correlation) / correlation
                rate = rng.beta(p * strength, (1 - p) * strength, sizes.size)[rows]
            yield stats.mean_interval(rng.random(rows.size) < rate, rows)

    return results


SCORES: dict[str, Callable[[Rng, int], Any]] = {
    "uniform": lambda rng, n: rng.random(n),
    "beta(20, 20)": lambda rng, n: rng.beta(20, 20, n),
    "beta(1, 9)": lambda rng, n: rng.beta(1, 9, n),
    "0 or 1, mostly": lambda rng, n: rng.beta(0.3, 0.7, n),
    "reciprocal ranks": lambda rng, n: 1 / np.minimum(np.ceil(rng.pareto(0.7, n) + 1e-9), 100),
    "70 % right, else fifths": lambda rng, n: np.where(rng.random(n) < 0.7, 1, rng.integers(0, 5, n) / 5),
    "95 % right, else fifths": lambda rng, n: np.where(rng.random(n) < 0.95, 1, rng.integers(0, 5, n) / 5),
    "like CIDEr / 10": lambda rng, n: np.minimum(rng.exponential(0.1, n), 1),
}


def scores() -> Iterator[Shape]:
    for name, n in [
        ("uniform", 5), ("uniform", 20), ("beta(20, 20)", 50), ("beta(20, 20)", 1000), ("beta(1, 9)", 50),
        ("beta(1, 9)", 200), ("0 or 1, mostly", 10), ("0 or 1, mostly", 50), ("reciprocal ranks", 20),
        ("reciprocal ranks", 2000), ("70 % right, else fifths", 20), ("70 % right, else fifths", 200),
        ("95 % right, else fifths", 50), ("95 % right, else fifths", 1000), ("like CIDEr / 10", 50),
        ("like CIDEr / 10", 500),
    ]:  # fmt: skip
        make = SCORES[name]
        yield Shape("mean_interval", f"{name}, n = {n}", _means(make, n), _mean_of(make))


def _means(make: Callable[[Rng, int], Any], n: int) -> Any:
    return lambda rng, rounds: (stats.mean_interval(make(rng, n)) for _ in range(rounds))


def _mean_of(make: Callable[[Rng, int], Any]) -> Callable[[Rng], float]:
    return lambda rng: float(np.mean([make(rng, LARGE).mean() for _ in range(20)]))


MEANS = (shares, clustered, scores)
