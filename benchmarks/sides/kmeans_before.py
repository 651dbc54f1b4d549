"""k-means as it was before: distances in float64, of copies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eyechart.metrics.vectors import Floats, Ints, Vectors

BLOCK_BYTES = 64 * 1024 * 1024
STARTS = 5
TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True)
class Clusters:
    """The best of several runs."""

    assignment: Ints
    centres: Vectors
    inertia: float
    """Mean squared distance to the centre."""


def k_means(vectors: Vectors, k: int, seed: int) -> Clusters:
    """Cluster rows into at most ``k`` groups by Lloyd's algorithm; the run with the smallest inertia counts.

    Fewer groups come out where there are fewer distinct rows.
    """
    rng = np.random.default_rng(seed)
    runs = [_lloyd(vectors, _spread(vectors, k, rng)) for _ in range(STARTS)]
    return min(runs, key=lambda run: run.inertia)


def _spread(vectors: Vectors, k: int, rng: np.random.Generator) -> Vectors:
    """Draw centres far from each other (k-means++): each with a probability that grows with its squared distance."""
    chosen = [int(rng.integers(len(vectors)))]
    nearest = _squared_distances(vectors, vectors[chosen])[:, 0]
    while len(chosen) < k and nearest.max() > TOLERANCE:
        chosen.append(int(rng.choice(len(vectors), p=nearest / nearest.sum())))
        nearest = np.minimum(nearest, _squared_distances(vectors, vectors[chosen[-1:]])[:, 0])
    return vectors[chosen]


def _lloyd(vectors: Vectors, centres: Vectors) -> Clusters:
    last = np.inf
    while True:
        assignment, inertia = _assign(vectors, centres)
        if last - inertia <= TOLERANCE * max(inertia, TOLERANCE):
            return Clusters(assignment, centres, inertia)
        last = inertia
        kept, starts = np.unique(np.sort(assignment), return_index=True)
        sums = np.add.reduceat(vectors[np.argsort(assignment, kind="stable")], starts, axis=0, dtype=np.float64)
        # A centre that lost all its rows stays where it is.
        centres = centres.copy()
        centres[kept] = sums / np.bincount(assignment)[kept, None]


def _assign(vectors: Vectors, centres: Vectors) -> tuple[Ints, float]:
    """Return the nearest centre of each row and the mean squared distance to it."""
    out, total = np.empty(len(vectors), np.int64), 0.0
    step = max(1, BLOCK_BYTES // (8 * len(centres)))
    for start in range(0, len(vectors), step):
        distances = _squared_distances(vectors[start : start + step], centres)
        out[start : start + step] = distances.argmin(axis=1)
        total += float(distances.min(axis=1).sum())
    return out, total / len(vectors)


def _squared_distances(rows: Vectors, centres: Vectors) -> Floats:
    cross = rows.astype(np.float64) @ centres.astype(np.float64).T
    squares = np.sum(np.square(rows, dtype=np.float64), axis=1)[:, None] + np.sum(
        np.square(centres, dtype=np.float64), axis=1
    )
    return np.asarray(np.maximum(squares - 2 * cross, 0), np.float64)
