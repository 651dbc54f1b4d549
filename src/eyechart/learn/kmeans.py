"""k-means on unit vectors, with k-means++ starts: seeded, and the same whatever the order of ties."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eyechart.metrics.vectors import Floats, Ints, Vectors

BLOCK_BYTES = 64 * 1024 * 1024
STARTS = 5
TOLERANCE = 1e-6
NEAR = 1e-3
"""Distances below this share of a row's own square are computed from differences."""


@dataclass(frozen=True, slots=True)
class Clusters:
    """The best of several runs."""

    assignment: Ints
    centres: Vectors
    inertia: float
    """Mean squared distance to the centre."""


def k_means(vectors: Vectors, k: int, seed: int) -> Clusters:
    """Cluster rows into at most ``k`` groups by Lloyd's algorithm; the run with the smallest inertia counts.

    Fewer groups come out where there are fewer distinct rows. Rows are compared with centres in float32; sums over
    rows, and so centres and inertia, are those of float64.
    """
    rng = np.random.default_rng(seed)
    squares: Floats = np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)
    runs = [_lloyd(vectors, _spread(vectors, squares, k, rng), float(squares.sum())) for _ in range(STARTS)]
    return min(runs, key=lambda run: run.inertia)


def _spread(vectors: Vectors, squares: Floats, k: int, rng: np.random.Generator) -> Vectors:
    """Draw centres far from each other (k-means++): each with a probability that grows with its squared distance."""
    chosen = [int(rng.integers(len(vectors)))]
    nearest = _distances_to(vectors, squares, chosen[0])
    while len(chosen) < k and nearest.max() > TOLERANCE:
        chosen.append(int(rng.choice(len(vectors), p=nearest / nearest.sum())))
        nearest = np.minimum(nearest, _distances_to(vectors, squares, chosen[-1]))
    return vectors[chosen]


def _distances_to(vectors: Vectors, squares: Floats, place: int) -> Floats:
    """Return the squared distances to one of the rows; small ones, of which float32 leaves nothing, in float64."""
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
        # A centre that lost all its rows stays where it is.
        centres = centres.copy()
        centres[kept] = sums / counts[kept, None]


def _assign(vectors: Vectors, centres: Vectors) -> Ints:
    """Return the nearest centre of each row."""
    out = np.empty(len(vectors), np.int64)
    halves = np.einsum("ij,ij->i", centres, centres) / 2
    step = max(1, BLOCK_BYTES // (8 * len(centres)))
    for start in range(0, len(vectors), step):
        nearness = vectors[start : start + step] @ centres.T
        nearness -= halves
        out[start : start + step] = nearness.argmax(axis=1)
    return out
