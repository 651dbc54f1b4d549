"""MaxSim (late interaction): the sum over a query's vectors of the best dot product with any vector of an item.

Only the vectors of an item take part, without padding, so a score does not depend on the other items of a call. An item
or query without vectors scores `LOWEST`.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eyechart.metrics.vectors import Floats, Ints, MultiVectors, row_dots

LOWEST = -1e30
"""Score of a pair of which one side has no vector: everything else ranks before it."""
WIDTH = 2048
"""Vectors of items that are multiplied at once; an item is never divided."""
CELLS = 1 << 20
"""Dot products held in memory: they fit into the caches."""


def maxsim(queries: MultiVectors, items: MultiVectors, dtype: Any = np.float32) -> NDArray[Any]:
    """Score all queries with all items; the result has shape (queries, items).

    Products are computed in ``dtype``, tile by tile: beyond the vectors, memory is bounded by `CELLS` and the longest
    item.
    """
    scores = np.full((len(queries), len(items)), LOWEST, dtype)
    asked = np.flatnonzero(queries.sizes)
    if not len(asked):
        return scores
    for chosen, bounds in _groups(items):
        vectors = np.asarray(items.rows[bounds[0] : bounds[-1]], dtype).T
        best = np.empty((len(queries.rows), len(chosen)), dtype)
        step = max(1, CELLS // vectors.shape[1])
        products = np.empty((min(step, len(best)), vectors.shape[1]), dtype)
        for top in range(0, len(best), step):
            some = np.asarray(queries.rows[top : top + step], dtype)
            np.matmul(some, vectors, out=products[: len(some)])
            np.maximum.reduceat(products[: len(some)], bounds[:-1] - bounds[0], axis=1, out=best[top : top + step])
        scores[np.ix_(asked, chosen)] = np.add.reduceat(best, queries.starts[asked], axis=0)
    return scores


def _groups(items: MultiVectors) -> Iterator[tuple[Ints, Ints]]:
    """Yield positions and row bounds of consecutive items with about `WIDTH` vectors, leaving out those without."""
    filled = np.flatnonzero(items.sizes)
    bounds = np.append(items.starts[filled], len(items.rows))
    first = 0
    while first < len(filled):
        last = max(first + 1, int(np.searchsorted(bounds, bounds[first] + WIDTH, "right")) - 1)
        yield filled[first:last], bounds[first : last + 1]
        first = last


def pair_scores(queries: MultiVectors, items: MultiVectors, query: Ints, item: Ints) -> Floats:
    """Score chosen pairs in float64, always in the same order: equal items give equal scores.

    float32 products select the vectors that may be the best ones; only these are multiplied exactly.
    """
    scores = np.full(len(query), LOWEST)
    usable = np.flatnonzero((queries.sizes[query] > 0) & (items.sizes[item] > 0))
    pairs = usable[np.argsort(item[usable], kind="stable")]
    for same in np.split(pairs, np.flatnonzero(np.diff(item[pairs])) + 1) if len(pairs) else ():
        vectors = items[item[same[:1]]].rows
        step = max(1, CELLS // (len(vectors) * int(queries.sizes[query[same]].max())))
        for start in range(0, len(same), step):
            some = same[start : start + step]
            scores[some] = _exact(queries[query[some]], vectors)
    return scores


def _exact(queries: MultiVectors, vectors: NDArray[Any]) -> Floats:
    """Score queries, each of which has a vector, with one item."""
    left, right = np.asarray(queries.rows, np.float32), np.asarray(vectors, np.float32)
    products = left @ right.T
    lengths = np.linalg.norm(left, axis=1), np.linalg.norm(right, axis=1).max()
    error = (right.shape[1] + 2) * 2.0**-23 * lengths[0] * lengths[1]
    row, column = np.nonzero(products >= (products.max(axis=1) - 2 * error)[:, None])
    exact = row_dots(left, right, row, column)
    best = np.maximum.reduceat(exact, np.searchsorted(row, np.arange(len(left))))
    return np.asarray(np.add.reduceat(best, queries.starts[:-1]), np.float64)
