"""The shapes of `coverage.py` for two models on the same samples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from coverage_metrics import RARE, Images
from coverage_shapes import CLUSTERS, Result, Rng, Shape, fixed

from eyechart import stats


def pairs() -> Iterator[Shape]:
    for n, wins, losses in [
        (5, 0.3, 0.3), (8, 0.25, 0.25), (10, 0.4, 0.4), (15, 0.25, 0.25), (20, 0.1, 0.1), (20, 0.25, 0.25),
        (50, 0.1, 0.1), (50, 0.4, 0.4), (200, 0.05, 0.05), (200, 0.25, 0.25), (2000, 0.005, 0.005), (2000, 0.1, 0.1),
        (10, 0.5, 0.1), (20, 0.3, 0.1), (50, 0.1, 0.02), (50, 0.8, 0.1), (100, 0.2, 0.0), (400, 0.05, 0.0),
        (400, 0.12, 0.08), (2000, 0.02, 0.01),
    ]:  # fmt: skip
        shape = f"rights and wrongs, n = {n}, only first right {wins}, only second {losses}"
        yield Shape("paired_test", shape, _pairs(n, wins, losses), fixed(wins - losses), paired=True)


def _pairs(n: int, wins: float, losses: float) -> Any:
    def results(rng: Rng, rounds: int) -> Iterator[Result]:
        for _ in range(rounds):
            draw = rng.random(n)
            yield stats.paired_test(draw < wins, draw > 1 - losses)

    return results


def paired_scores() -> Iterator[Shape]:
    for n in (5, 10, 20, 50, 500):
        for gain in (0.0, 0.1):
            shape = f"normal differences, n = {n}, mean {gain}"
            yield Shape("paired_test", shape, _normal_pairs(n, gain), fixed(gain), paired=True)
    for name, correlation in [
        ("8 of 10", 0.5), ("20 of 5", 0.5), ("60 of 3 to 7", 0.3), ("200 of 5", 0.5), ("1 of 200, 49 of 1", 0.5),
        ("1 of 20, 80 of 1", 0.5), ("100 of 200 / k", 0.5),
    ]:  # fmt: skip
        draw = _clustered_pairs(np.array(CLUSTERS[name]), correlation)
        shape = f"rights and wrongs, clusters {name}, correlation {correlation}"
        yield Shape("paired_test", shape, draw, fixed(0.0), paired=True)


def _normal_pairs(n: int, gain: float) -> Any:
    return lambda rng, rounds: (
        stats.paired_test(0.5 + gain + 0.2 * rng.standard_normal(n), np.full(n, 0.5)) for _ in range(rounds)
    )


def _clustered_pairs(sizes: Any, correlation: float) -> Any:
    """Two equally good models that are right where a normal variable is positive, `correlation` within clusters."""
    rows = np.repeat(np.arange(sizes.size), sizes)

    def results(rng: Rng, rounds: int) -> Iterator[Result]:
        for _ in range(rounds):
            shared = np.sqrt(correlation) * rng.standard_normal((2, sizes.size))[:, rows]
            first, second = shared + np.sqrt(1 - correlation) * rng.standard_normal((2, rows.size)) > 0
            yield stats.paired_test(first, second, rows)

    return results


def paired_precisions() -> Iterator[Shape]:
    for name, images in [
        ("20 images, 1 class of half", Images(20, 1, 0.5, 1.0)),
        ("100 images, 1 class of 10 %", Images(100, 1, 0.1, 2.0)),
        ("50 images, 3 classes of 20 %", Images(50, 3, 0.2, 1.5)),
        ("300 images, 5 classes of 10 %", Images(300, 5, 0.1, 1.5)),
        ("300 images, 5 classes of 10 %, ties", Images(300, 5, 0.1, 1.5, step=0.5)),
        ("150 images, 8 classes of 3 to 30 %, correlation 0.8", Images(150, 8, RARE, 1.5, correlation=0.8)),
        ("100 images, 50 classes of 2 %", Images(100, 50, 0.02, 1.5)),
        ("2000 images, 3 classes of 30 %", Images(2000, 3, 0.3, 1.0)),
    ]:
        cost = max(1.0, images.n * images.classes / 2000)
        yield Shape("paired_average_precision", name, _paired_precisions(images), fixed(0.0), paired=True, cost=cost)


def _paired_precisions(images: Images) -> Any:
    def results(rng: Rng, rounds: int) -> Iterator[Result]:
        for _ in range(rounds):
            present = images.targets(rng)
            yield stats.paired_average_precision(*(images.scores(rng, present) for _ in range(2)), present)

    return results


PAIRED = (pairs, paired_scores, paired_precisions)
