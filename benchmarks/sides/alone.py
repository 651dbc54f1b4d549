"""Two ways to do one thing, in turn in one process and one thread: python alone.py PART SCALE ROUNDS prints JSON.

Each part gives both sides and a check that they agree. Times are CPU seconds, medians over rounds.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import agreement_before
import kmeans_before
import labels_before
import numpy as np
from vectors import make

from eyechart import stats
from eyechart.learn.kmeans import k_means
from eyechart.learn.logistic import fit_logistic
from eyechart.learn.neighbours import neighbour_votes
from eyechart.metrics.classification import average_precision, rank_labels
from eyechart.metrics.correlation import spearman
from eyechart.metrics.ranking import rank_relevant
from eyechart.metrics.retrieval import rank_both_ways, rank_positives, top_items
from eyechart.metrics.search import TILE, Positives
from eyechart.metrics.vectors import unit

Side = Callable[[], object]
Pair = tuple[str, Side, Side, float]
"""What is done, the other side, ours, and the ratio of other to ours that is wanted."""
DIM = 512


def drawn(n: int, seed: int, dim: int = DIM) -> np.ndarray:
    """Draw unit vectors."""
    return unit(np.random.default_rng(seed).standard_normal((n, dim)).astype(np.float32))


def labels(scale: float) -> Iterator[Pair]:
    """Rank 1,000 classes."""
    n = int(20_000 * scale)
    images, classes, own = drawn(n, 0), drawn(1000, 1), np.random.default_rng(2).integers(0, 1000, n)
    agree(np.array_equal(rank_labels(images, classes, own).ranks, labels_before.rank_labels(images, classes, own)[0]))
    yield (
        f"rank_labels, {n} x 1000, against before",
        *_both(lambda: labels_before.rank_labels(images, classes, own), lambda: rank_labels(images, classes, own)),
        3.0,
    )
    yield (
        f"rank_labels, {n} x 1000, against the bare product",
        *_both(lambda: images @ classes.T, lambda: rank_labels(images, classes, own)),
        0.67,
    )


def recall(scale: float) -> Iterator[Pair]:
    """Rank in both directions; the other side only multiplies, in parts of the same size."""
    n = int(5000 * scale)
    images, texts = make(n)
    owner, (height, width) = np.repeat(np.arange(n), 5), TILE
    space = np.empty((height, width), np.float32)

    def multiply() -> None:
        for top in range(0, len(texts), height):
            for left in range(0, n, width):
                rows, columns = texts[top : top + height], images[left : left + width]
                np.matmul(rows, columns.T, out=space.ravel()[: len(rows) * len(columns)].reshape(len(rows), -1))

    for name, other in {"the bare product in parts": multiply, "the product at once": lambda: texts @ images.T}.items():
        yield (
            f"recall both ways, {n} x {5 * n}, against {name}",
            *_both(other, lambda: rank_both_ways(images, texts, owner)),
            0.87,
        )


def relevant(scale: float) -> Iterator[Pair]:
    """Rank all relevant items; the other side finds the best of them only."""
    n = int(2000 * scale)
    images, texts = make(n)
    found = Positives.of_pairs(np.repeat(np.arange(n), 5), np.arange(5 * n), n)
    agree(np.array_equal(rank_relevant(images, texts, found).best, rank_positives(images, texts, found).ranks))
    yield (
        f"rank_relevant, {n} x {5 * n}, 5 each, against one pass",
        *_both(lambda: rank_positives(images, texts, found), lambda: rank_relevant(images, texts, found)),
        0.67,
    )


def collapsed(scale: float) -> Iterator[Pair]:
    """Rank by a model all of whose scores are within 1e-5; the other side is a healthy one."""
    n = int(2000 * scale)
    owner = np.repeat(np.arange(n), 5)
    positives = Positives.of_pairs(owner, np.arange(5 * n), n)
    healthy = make(n)
    middle = drawn(1, 3)
    alike = [unit(middle + np.float32(1e-3) * rows) for rows in (drawn(n, 4), drawn(5 * n, 5))]
    for name, rank in {
        "rank_positives": lambda images, texts: rank_positives(images, texts, positives),
        "rank_both_ways": lambda images, texts: rank_both_ways(images, texts, owner),
        "rank_relevant": lambda images, texts: rank_relevant(images, texts, positives),
        "top_items": lambda images, texts: top_items(images, texts, 10),
    }.items():
        yield (
            f"{name} of a collapsed model, {n} x {5 * n}, against a healthy one",
            *_both(lambda rank=rank: rank(*healthy), lambda rank=rank: rank(*alike)),
            0.5,
        )


def learning(scale: float) -> Iterator[Pair]:
    """Learn as scikit-learn does."""
    from sklearn.cluster import KMeans
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier

    n = int(5000 * scale)
    own = np.random.default_rng(0).integers(0, 50, n)
    rows = unit(0.5 * drawn(50, 1, 256)[own] + drawn(n, 2, 256))
    queries = rows[: n // 5]
    neighbours = KNeighborsClassifier(20, algorithm="brute", metric="cosine")
    yield (
        f"20 neighbours of {n // 5} among {n}, against scikit-learn",
        *_both(
            lambda: neighbours.fit(rows, own).predict_proba(queries), lambda: neighbour_votes(rows, own, queries, 20)
        ),
        1.0,
    )
    yield (
        f"k-means, {n} rows, 50 groups, against scikit-learn",
        *_both(lambda: KMeans(50, n_init=5, random_state=0).fit(rows), lambda: k_means(rows, 50, 0)),
        1.0,
    )
    agree(abs(k_means(rows, 50, 0).inertia - kmeans_before.k_means(rows, 50, 0).inertia) < 1e-6)
    yield (
        f"k-means, {n} rows, 50 groups, against before",
        *_both(lambda: kmeans_before.k_means(rows, 50, 0), lambda: k_means(rows, 50, 0)),
        2.0,
    )
    features = rows[:, :128].astype(np.float64)
    for strength in (1.0, 100.0):
        theirs = LogisticRegression(C=strength, tol=1e-7, max_iter=1000)
        yield (
            f"logistic probe, C = {strength:g}, {n} x 128, to the same slope as scikit-learn in float64",
            *_both(
                lambda theirs=theirs: theirs.fit(features, own),
                lambda strength=strength: fit_logistic(features.astype(np.float32), own, strength),
            ),
            1.0,
        )


def intervals(scale: float) -> Iterator[Pair]:
    """Metric and interval; the ratio wanted is that of at most five times the metric's own time."""
    rng = np.random.default_rng(0)
    n = int(50_000 * scale)
    present = rng.random((n, 80)) < 0.03
    scores = rng.standard_normal((n, 80), np.float32) + present
    first, second = rng.random((2, n))
    second += first
    verdicts = (rng.random((2, n)) < 0.5).astype(np.float64)
    verdicts[1] = np.where(rng.random(n) < 0.8, verdicts[0], verdicts[1])
    yield (
        f"interval of mAP, {n} x 80, against the metric",
        *_both(
            lambda: [average_precision(*column) for column in zip(scores.T, present.T, strict=True)],
            lambda: stats.average_precision_interval(scores, present),
        ),
        0.2,
    )
    yield (
        f"interval of Spearman's correlation, {n}, against the metric",
        *_both(lambda: spearman(first, second), lambda: stats.correlation_interval(first, second, of_ranks=True)),
        0.2,
    )
    yield (
        f"kappa with its interval, {n}, against before",
        *_both(lambda: agreement_before.cohen_kappa(*verdicts), lambda: stats.cohen_kappa(*verdicts)),
        20.0,
    )
    yield (
        f"alpha with its interval, {n}, against before",
        *_both(lambda: agreement_before.krippendorff_alpha(verdicts), lambda: stats.krippendorff_alpha(verdicts)),
        20.0,
    )


def agree(same: bool) -> None:
    """Stop if the two sides do not give the same."""
    if not same:
        raise SystemExit("the two sides differ")


def _both(other: Side, ours: Side) -> tuple[Side, Side]:
    return other, ours


def seconds(action: Side) -> float:
    """Return the CPU seconds of an action."""
    start = time.process_time()
    action()
    return time.process_time() - start


def measure(pair: Pair, rounds: int) -> dict[str, object]:
    """Run both sides in turn."""
    what, other, ours, wanted = pair
    found: list[list[float]] = [[], []]
    for _ in range(rounds):
        for times, side in zip(found, (other, ours), strict=True):
            times.append(seconds(side))
    theirs, own = map(statistics.median, found)
    return {"what": what, "other": theirs, "ours": own, "ratio": theirs / own, "wanted": wanted}


PARTS = {part.__name__: part for part in (labels, recall, relevant, collapsed, learning, intervals)}


if __name__ == "__main__":
    name, scale, rounds = sys.argv[1:]
    print(json.dumps([measure(pair, int(rounds)) for pair in PARTS[name](float(scale))]))
