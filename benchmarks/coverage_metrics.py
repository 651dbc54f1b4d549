"""The shapes of `coverage.py` for recall, average precision and correlation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from coverage_shapes import LARGE, Result, Rng, Shape, fixed

from eyechart import stats
from eyechart.metrics.agreement import pearson, spearman


def recalls() -> Iterator[Shape]:
    mixed = [1, 2, 3, 5, 10, 20, 50, 100] * 4
    for name, sizes, recall in [
        ("(100, 2, 2), recalls 0.9 0.5 0.5", [100, 2, 2], [0.9, 0.5, 0.5]),
        ("(100, 2, 2), recalls 0.9", [100, 2, 2], [0.9] * 3),
        ("(100, 3, 3), recalls 0.7", [100, 3, 3], [0.7] * 3),
        ("(200, 1), recalls 0.9", [200, 1], [0.9] * 2),
        ("(200, 5), recalls 0.97 0.32", [200, 5], [0.97, 0.32]),
        ("(50, 50), recalls 0.9 0.5", [50, 50], [0.9, 0.5]),
        ("(5, 5, 5), recalls 0.5", [5] * 3, [0.5] * 3),
        ("(1000, 10, 10, 10), recalls 0.9", [1000, 10, 10, 10], [0.9] * 4),
        ("9 of 50, 1 of 1, recalls 0.8", [50] * 9 + [1], [0.8] * 10),
        ("10 of 2, recalls 0.5", [2] * 10, [0.5] * 10),
        ("20 of 3, recalls beta(4, 2)", [3] * 20, "beta"),
        ("80 of 1, recalls 0.8", [1] * 80, [0.8] * 80),
        ("80 of 1, recalls beta(4, 2)", [1] * 80, "beta"),
        ("32 of 1 to 100, recalls beta(4, 2)", mixed, "beta"),
        ("32 of 1 to 100, recalls 0.97", mixed, [0.97] * 32),
        ("100 of 10, recalls 0.99", [10] * 100, [0.99] * 100),
        ("400 of 3, recalls beta(4, 2)", [3] * 400, "beta"),
        ("1000 of 2, recalls 0.7", [2] * 1000, [0.7] * 1000),
    ]:
        own = np.random.default_rng(1).beta(4, 2, len(sizes)) if recall == "beta" else np.array(recall)
        yield Shape("mean_recall_interval", name, _recalls(np.array(sizes), own), fixed(float(own.mean())))


def _recalls(sizes: Any, recall: Any) -> Any:
    labels = np.repeat(np.arange(sizes.size), sizes)
    return lambda rng, rounds: (
        stats.mean_recall_interval(rng.random(labels.size) < recall[labels], labels) for _ in range(rounds)
    )


RARE = np.geomspace(0.03, 0.3, 8)


class Images(NamedTuple):
    """Multilabel images: normal scores, higher by `shift` for the classes that are present."""

    n: int
    classes: int
    rate: Any
    shift: float
    step: float = 0.0
    """Rounding step of the scores; infinity makes all equal."""
    correlation: float = 0.0
    """Correlation between classes of the labels of an image, and of its scores."""

    def targets(self, rng: Rng) -> Any:
        thresholds = np.vectorize(stats.normal_quantile)(self.rate)
        while not (present := self._normal(rng) < thresholds).any():
            pass
        return present

    def _normal(self, rng: Rng) -> Any:
        own = rng.standard_normal((self.n, self.classes))
        shared = rng.standard_normal((self.n, 1))
        return np.sqrt(1 - self.correlation) * own + np.sqrt(self.correlation) * shared

    def scores(self, rng: Rng, present: Any) -> Any:
        values = self._normal(rng) + self.shift * present
        if np.isinf(self.step):
            return np.zeros_like(values)
        return np.round(values / self.step) * self.step if self.step else values


def precisions() -> Iterator[Shape]:
    unequal = np.geomspace(0.002, 0.2, 20)
    for name, images in [
        ("50 images, 1 class of 10 %", Images(50, 1, 0.1, 1.5)),
        ("20 images, 1 class of half", Images(20, 1, 0.5, 1.0)),
        ("50 images, 1 class of half", Images(50, 1, 0.5, 1.0)),
        ("100 images, 1 class of 10 %", Images(100, 1, 0.1, 2.0)),
        ("500 images, 1 class of 2 %", Images(500, 1, 0.02, 2.0)),
        ("30 images, 2 classes of 30 %", Images(30, 2, 0.3, 1.5)),
        ("50 images, 3 classes of 20 %", Images(50, 3, 0.2, 1.5)),
        ("300 images, 5 classes of 10 %", Images(300, 5, 0.1, 1.5)),
        ("300 images, 5 classes of 10 %, ties", Images(300, 5, 0.1, 1.5, step=0.5)),
        ("300 images, 5 classes of 10 %, all scores equal", Images(300, 5, 0.1, 0.0, step=np.inf)),
        ("300 images, 5 classes of 10 %, random scores", Images(300, 5, 0.1, 0.0)),
        ("300 images, 20 classes of 1 %", Images(300, 20, 0.01, 2.0)),
        ("100 images, 50 classes of 2 %", Images(100, 50, 0.02, 1.5)),
        ("60 images, 8 classes of 3 to 30 %, correlation 0.8", Images(60, 8, RARE, 1.5, correlation=0.8)),
        ("150 images, 8 classes of 3 to 30 %, correlation 0.5", Images(150, 8, RARE, 1.5, correlation=0.5)),
        ("150 images, 8 classes of 3 to 30 %, correlation 0.8", Images(150, 8, RARE, 1.5, correlation=0.8)),
        (
            "150 images, 8 classes of 3 to 30 %, correlation 0.5, good scores",
            Images(150, 8, RARE, 2.5, correlation=0.5),
        ),
        ("1000 images, 20 classes of 0.2 to 20 %", Images(1000, 20, unequal, 2.0)),
        ("2000 images, 3 classes of 30 %", Images(2000, 3, 0.3, 1.0)),
    ]:
        cost = max(1.0, images.n * images.classes / 4000)
        yield Shape("average_precision_interval", name, _precisions(images), _precision_of(images), cost=cost)


def _precisions(images: Images) -> Any:
    def results(rng: Rng, rounds: int) -> Iterator[Result]:
        for _ in range(rounds):
            present = images.targets(rng)
            yield stats.average_precision_interval(images.scores(rng, present), present)

    return results


def _precision_of(images: Images) -> Callable[[Rng], float]:
    """Expected value over test sets of this size."""

    def truth(rng: Rng) -> float:
        found = []
        for _ in range(max(300, int(3_000_000 / (images.n * images.classes) ** 0.9 / 4))):
            present = images.targets(rng)
            found.append(stats.mean_average_precision(images.scores(rng, present), present))
        return float(np.mean(found))

    return truth


def _ratings(y: Any) -> Any:
    return np.clip(np.round(1.2 * y + 2.5), 0, 5)


PAIRED_VALUES: dict[str, Callable[[Any], Any]] = {
    "normal": lambda y: y,
    "ratings 0 to 5": _ratings,
    "mostly low ratings": lambda y: np.clip(np.round(np.exp(y)), 0, 5),
}


def correlations() -> Iterator[Shape]:
    for kind, rho, n in [
        ("normal", 0.0, 8), ("normal", 0.9, 8), ("normal", 0.5, 20), ("normal", 0.95, 200), ("ratings 0 to 5", 0.5, 10),
        ("ratings 0 to 5", 0.9, 50), ("ratings 0 to 5", 0.7, 2000), ("mostly low ratings", 0.5, 20),
        ("mostly low ratings", 0.9, 200),
    ]:  # fmt: skip
        for of_ranks in (False, True):
            name = f"{'Spearman' if of_ranks else 'Pearson'}, {kind}, rho = {rho}, n = {n}"
            draw = _correlations(PAIRED_VALUES[kind], rho, n, of_ranks)
            truth = _correlation_of(PAIRED_VALUES[kind], rho, of_ranks)
            yield Shape("correlation_interval", name, draw, truth, cost=max(1.0, n / 500))


def _pair(rng: Rng, rho: float, n: int, shape: Callable[[Any], Any]) -> tuple[Any, Any]:
    x, noise = rng.standard_normal((2, n))
    return x, shape(rho * x + np.sqrt(1 - rho**2) * noise)


def _correlations(shape: Callable[[Any], Any], rho: float, n: int, of_ranks: bool) -> Any:
    return lambda rng, rounds: (
        stats.correlation_interval(*_pair(rng, rho, n, shape), of_ranks=of_ranks) for _ in range(rounds)
    )


def _correlation_of(shape: Callable[[Any], Any], rho: float, of_ranks: bool) -> Callable[[Rng], float]:
    measure = spearman if of_ranks else pearson
    return lambda rng: float(np.mean([measure(*_pair(rng, rho, LARGE, shape)) for _ in range(10)]))


METRICS = (recalls, precisions, correlations)
