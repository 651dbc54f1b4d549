"""Nearest vectors: votes of the k nearest neighbours, and k-means clusters of unit vectors."""

from dataclasses import dataclass

import numpy as np

from eyechart.metrics.vectors import Floats, Ints, Vectors, distinct_rows, kth_largest

BLOCK_BYTES = 64 * 1024 * 1024
TEMPERATURE = 0.07
"""A neighbour of cosine s has the weight exp(s / 0.07), as in Wu et al. 2018 and DINO."""


def neighbour_votes(
    train: Vectors, labels: Ints, queries: Vectors, k: int, *, temperature: float = TEMPERATURE
) -> Vectors:
    """Return the votes of the ``k`` nearest training rows for each class, shape (queries, max(labels) + 1).

    Rows exactly as near as the k-th vote too, so the order of the training data never matters. Votes are relative to
    that of the nearest row; ``temperature`` is their decay with distance: infinity gives each neighbour one vote. All
    vectors have unit length.
    """
    k = min(k, len(train))
    classes = int(labels.max()) + 1
    votes = np.empty((len(queries), classes), np.float32)
    # Equal rows must tie exactly, and a matrix product may round them differently: each takes the first one's score.
    first, number, _ = distinct_rows(train)
    columns = np.ascontiguousarray(train.T)
    step = max(1, BLOCK_BYTES // (12 * len(train)))
    for start in range(0, len(queries), step):
        scores = queries[start : start + step] @ columns
        scores = scores[:, first[number]] if len(first) < len(train) else scores
        row, column = np.nonzero(scores >= kth_largest(scores, k)[:, None])
        weights = np.exp((scores[row, column] - scores.max(axis=1)[row]) / np.float32(temperature))
        cells = row * classes + labels[column]
        votes[start : start + step] = np.bincount(cells, weights, len(scores) * classes).reshape(-1, classes)
    return votes


# Seeded k-means on unit vectors with k-means++ initialisation, independent of the order of ties.


STARTS = 5
TOLERANCE = 1e-6
NEAR = 1e-3
"""Distances below this share of a row's squared length are computed from differences."""


@dataclass(frozen=True, slots=True)
class Clusters:
    """The best of several runs."""

    assignment: Ints
    centres: Vectors
    inertia: float
    """Mean squared distance to the centre."""


def k_means(vectors: Vectors, k: int, seed: int) -> Clusters:
    """Cluster rows into at most ``k`` groups by Lloyd's algorithm, keeping the run with the smallest inertia.

    Fewer distinct rows give fewer groups. Rows are compared with centres in float32; sums over rows, and so centres and
    inertia, are in float64.
    """
    rng = np.random.default_rng(seed)
    squares: Floats = np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)
    runs = [_lloyd(vectors, _spread(vectors, squares, k, rng), float(squares.sum())) for _ in range(STARTS)]
    return min(runs, key=lambda run: run.inertia)


def _spread(vectors: Vectors, squares: Floats, k: int, rng: np.random.Generator) -> Vectors:
    """Draw initial centres (k-means++), with probabilities proportional to the squared distance from earlier ones."""
    chosen = [int(rng.integers(len(vectors)))]
    nearest = _distances_to(vectors, squares, chosen[0])
    while len(chosen) < k and nearest.max() > TOLERANCE:
        chosen.append(int(rng.choice(len(vectors), p=nearest / nearest.sum())))
        nearest = np.minimum(nearest, _distances_to(vectors, squares, chosen[-1]))
    return vectors[chosen]


def _distances_to(vectors: Vectors, squares: Floats, place: int) -> Floats:
    """Return the squared distances to one row; small ones, lost to rounding in float32, in float64."""
    distances = squares + squares[place] - 2 * (vectors @ vectors[place]).astype(np.float64)
    near = np.flatnonzero(distances < NEAR * squares[place])
    distances[near] = np.square(vectors[near] - vectors[place], dtype=np.float64).sum(axis=1)
    return np.asarray(np.maximum(distances, 0), np.float64)


def _lloyd(vectors: Vectors, centres: Vectors, squares: float) -> Clusters:
    last = np.inf
    while True:
        assignment = _assign(vectors, centres)
        counts = np.bincount(assignment, minlength=len(centres))
        kept = np.flatnonzero(counts)
        order = np.argsort(assignment, kind="stable")
        sums = np.add.reduceat(vectors[order], (np.cumsum(counts) - counts)[kept], axis=0, dtype=np.float64)
        own = centres[kept].astype(np.float64)
        apart = squares - 2 * float(np.sum(sums * own)) + float(counts[kept] @ np.sum(own**2, axis=1))
        inertia = max(0.0, apart / len(vectors))
        if last - inertia <= TOLERANCE * max(inertia, TOLERANCE):
            return Clusters(assignment, centres, inertia)
        last = inertia
        # A centre without rows stays in place.
        centres = centres.copy()
        centres[kept] = sums / counts[kept, None]


def _assign(vectors: Vectors, centres: Vectors) -> Ints:
    out = np.empty(len(vectors), np.int64)
    halves = np.einsum("ij,ij->i", centres, centres) / 2
    step = max(1, BLOCK_BYTES // (8 * len(centres)))
    for start in range(0, len(vectors), step):
        nearness = vectors[start : start + step] @ centres.T
        nearness -= halves
        out[start : start + step] = nearness.argmax(axis=1)
    return out
