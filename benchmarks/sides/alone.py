"""Two ways to do one thing, in turn in one process and one thread: python alone.py PART SCALE ROUNDS prints JSON.

Each part gives both sides and a check that they agree. Times are CPU seconds, medians over rounds.
"""

from __future__ import annotations

import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import agreement_before
import kmeans_before
import labels_before
import numpy as np
from vectors import make

from eyechart import stats
from eyechart.inference.pipeline import FLUSH_ROWS
from eyechart.learn.linear_classifiers import fit_logistic
from eyechart.learn.nearest import k_means, neighbour_votes
from eyechart.metrics.agreement import pearson, spearman
from eyechart.metrics.classification import per_class_recall, rank_labels
from eyechart.metrics.retrieval import METRICS, RelevantRanks, rank_both_ways, rank_positives, rank_relevant, top_items
from eyechart.metrics.search import TILE, Positives
from eyechart.metrics.vectors import unit
from eyechart.store.blobs import LocalBlobs
from eyechart.store.maintenance import compact
from eyechart.store.vector_store import VectorTable, part_bytes, table_name

Side = Callable[[], object]
Pair = tuple[str, Side, Side, float]
"""What is done, the other side, ours, and the ratio of other to ours that is wanted."""
DIM = 512
RELEVANT = ((2000, 1), (2000, 5), (400, 50), (100, 200))
"""Queries, and relevant items of each."""


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
    cases = [(n, each, "", make(n, each)) for n, each in ((int(q * scale), e) for q, e in RELEVANT)]
    blind = int(400 * scale)
    cases.append((blind, 50, ", of a model that knows nothing", (drawn(blind, 6), drawn(50 * blind, 7))))
    for n, each, whose, (images, texts) in cases:
        found = Positives.of_pairs(np.repeat(np.arange(n), each), np.arange(each * n), n)
        agree(np.array_equal(rank_relevant(images, texts, found).best, rank_positives(images, texts, found).ranks))
        yield (
            f"rank_relevant, {n} x {each * n}, {each} each{whose}, against one pass",
            *_both(
                lambda images=images, texts=texts, found=found: rank_positives(images, texts, found),
                lambda images=images, texts=texts, found=found: rank_relevant(images, texts, found),
            ),
            0.5,
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
    many = np.random.default_rng(3).integers(0, 100, n)
    probes = {128: (rows[:, :128], own), 512: (unit(0.5 * drawn(100, 4)[many] + drawn(n, 5)), many)}
    for (dim, (features, classes)), strength in product(probes.items(), (1.0, 100.0)):
        theirs = LogisticRegression(C=strength, tol=1e-7, max_iter=1000)
        precise = features.astype(np.float64)
        yield (
            f"logistic probe, C = {strength:g}, {n} x {dim}, to the same slope as scikit-learn in float64",
            *_both(
                lambda theirs=theirs, precise=precise, classes=classes: theirs.fit(precise, classes),
                lambda features=features, classes=classes, strength=strength: fit_logistic(features, classes, strength),
            ),
            1.0,
        )


def intervals(scale: float) -> Iterator[Pair]:
    """Metric and interval; the ratio wanted is that of at most five times the metric's own time.

    The metric's own time is that from what is known of each sample (ranks, scores, verdicts) to the number.
    """
    rng = np.random.default_rng(0)
    n = int(50_000 * scale)
    ranks, others = rng.integers(1, 20, (2, n))
    image, label = np.repeat(np.arange(n), 5)[:n], rng.integers(0, 1000, n)
    hits = (ranks == 1).astype(np.float64)
    relevant = RelevantRanks.from_rows(
        np.repeat(np.arange(n), 3), rng.integers(1, 100, 3 * n), np.ones(3 * n), hits > 0
    )
    mrr, recalls = METRICS["mrr"](relevant, 10), METRICS["recall"](relevant, 5)
    present = rng.random((n, 80)) < 0.03
    scores, other_scores = (rng.standard_normal((n, 80), np.float32) + present for _ in range(2))
    first, second = rng.random((2, n))
    second += first
    panel = (rng.random((3, n)) < 0.5).astype(np.float64)
    majority = stats.Interval(0.4, 0.6)
    rows: dict[str, tuple[Side, Side]] = {
        "acc1 (a share)": _both(lambda: np.mean(ranks == 1), lambda: stats.mean_interval(hits)),
        "MRR (a mean of reals)": _both(lambda: METRICS["mrr"](relevant, 10).mean(), lambda: stats.mean_interval(mrr)),
        "recall@5, five queries an image (clustered)": _both(
            lambda: METRICS["recall"](relevant, 5).mean(), lambda: stats.mean_interval(recalls, image)
        ),
        "mean_per_class_recall": _both(
            lambda: np.mean(list(per_class_recall(hits > 0, label, 1000).values())),
            lambda: stats.mean_recall_interval(hits > 0, label),
        ),
        "mAP, 80 classes": _both(
            lambda: stats.mean_average_precision(scores, present),
            lambda: stats.average_precision_interval(scores, present),
        ),
        "Spearman's correlation": _both(
            lambda: spearman(first, second), lambda: stats.correlation_interval(first, second, of_ranks=True)
        ),
        "Pearson's correlation": _both(
            lambda: pearson(first, second), lambda: stats.correlation_interval(first, second)
        ),
        "a majority of three judges": _both(
            lambda: np.mean(panel.sum(axis=0) > 1.5), lambda: stats.widen_for_judges(majority, panel)
        ),
        "the difference of two acc1": _both(
            lambda: np.mean(ranks == 1) - np.mean(others == 1), lambda: stats.paired_test(hits, others == 1)
        ),
        "the difference of two recall@5 (clustered)": _both(
            lambda: [METRICS["recall"](relevant, 5).mean() for _ in range(2)],
            lambda: stats.paired_test(recalls, mrr, image),
        ),
        "the difference of two mAP": _both(
            lambda: [stats.mean_average_precision(side, present) for side in (scores, other_scores)],
            lambda: stats.paired_average_precision(scores, other_scores, present),
        ),
    }
    for name, sides in rows.items():
        yield f"interval of {name}, {n}, against the metric", *sides, 0.2
    verdicts = panel[:2]
    verdicts[1] = np.where(rng.random(n) < 0.8, verdicts[0], verdicts[1])
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


def compaction(scale: float) -> Iterator[Pair]:
    """Open a table of small files, look all keys up and read all; ours is the same table after `cache compact`."""
    for files in (1000, 10_000):
        n = max(2, int(files * scale))
        keys, rows = np.random.default_rng(0).integers(0, 256, (2 * n, 16), np.uint8), drawn(2 * n, 1)
        with tempfile.TemporaryDirectory() as folder:
            many, few = Path(folder, "many"), Path(folder, "few")
            many.mkdir()
            for i in range(n):  # not through a table, which flushes each file to the disk
                both = slice(2 * i, 2 * i + 2)
                (many / f"{i:020d}.safetensors").write_bytes(part_bytes(table_name(many), keys[both], rows[both]))
            shutil.copytree(many, few)
            compact(LocalBlobs(few))
            agree(np.array_equal(VectorTable(many).get(keys), VectorTable(few).get(keys)))
            yield (
                f"{2 * n} vectors in {n} files, after compaction against before",
                *(lambda place=place, keys=keys: VectorTable(place).get(keys) for place in (many, few)),
                3.0,
            )


def half_precision(scale: float) -> Iterator[Pair]:
    """Write and read vectors in half precision; the other side does so in full."""
    n = int(50_000 * scale)
    keys, rows = np.random.default_rng(0).integers(0, 256, (n, 16), np.uint8), drawn(n, 1)
    with tempfile.TemporaryDirectory() as folder:
        full, half = Path(folder, "full"), Path(folder, "half")

        def write(place: Path) -> None:
            shutil.rmtree(place, ignore_errors=True)
            table = VectorTable(place, half=place is half)
            for first in range(0, n, FLUSH_ROWS):
                table.add(keys[first : first + FLUSH_ROWS], rows[first : first + FLUSH_ROWS])

        def read(place: Path) -> None:
            table = VectorTable(place, half=place is half)
            for first in range(0, n, FLUSH_ROWS):
                table.get(keys[first : first + FLUSH_ROWS])

        write(full), write(half)
        agree(np.abs(VectorTable(half, half=True).get(keys) - rows).max() < 2**-11)
        sizes = [sum(part.stat().st_size for part in place.iterdir()) / 1e6 for place in (half, full)]
        files = "{:.0f} MB against {:.0f}".format(*sizes)
        yield f"write {n} vectors in fp16, {files} in fp32", partial(write, full), partial(write, half), 0.8
        yield f"read {n} vectors in fp16, {files} in fp32", partial(read, full), partial(read, half), 1.0


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


PARTS = {
    part.__name__: part
    for part in (labels, recall, relevant, collapsed, learning, intervals, compaction, half_precision)
}


if __name__ == "__main__":
    name, scale, rounds = sys.argv[1:]
    print(json.dumps([measure(pair, int(rounds)) for pair in PARTS[name](float(scale))]))
