"""Nearest neighbours: each image gets the class of the training images that are most similar to it."""

from __future__ import annotations

import numpy as np

from eyechart.metrics.vectors import Ints, Vectors, distinct_rows, kth_largest

BLOCK_BYTES = 64 * 1024 * 1024
TEMPERATURE = 0.07
"""A neighbour of cosine s counts exp(s / 0.07), as in Wu et al. 2018 and DINO."""


def neighbour_votes(
    train: Vectors, labels: Ints, queries: Vectors, k: int, *, temperature: float = TEMPERATURE
) -> Vectors:
    """Return the votes of the ``k`` nearest training rows for each class, shape (queries, max(labels) + 1).

    Rows that are exactly as near as the k-th vote too, so the order of the training data never matters. Votes are
    relative to the nearest row's.

    Args:
        train: Unit vectors, (n, d).
        labels: Their classes.
        queries: Unit vectors, (m, d).
        k: How many neighbours vote; with fewer training rows, all of them.
        temperature: How fast a vote fades with distance; infinite gives each neighbour one vote.
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
