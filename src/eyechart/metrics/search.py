"""Exact search: which gallery items score at least as high as a given one, as float64 would say, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from eyechart.metrics.vectors import Flags, Floats, Ints, Vectors, distinct_rows, in_range, zero_rows

PAIRS_BYTES = 8 * 1024 * 1024
"""Single pairs are multiplied in blocks of about this size."""
TILE = (512, 8192)
"""Rows and columns of the part of the score matrix that exists at a time."""
DENSE = 128
"""If more than one pair in this many needs float64, the whole tile is computed so."""
SMALLEST = 2.0**-149
"""The least number that float32 holds; smaller products vanish."""
FLOAT64_SHARE = 2.0**-29
"""How much less float64 rounds than float32."""
LOWEST = -1e30
"""The score of a right answer whose vector, or whose query's, is zero: everything wrong stands before it."""


@dataclass(frozen=True, slots=True)
class Positives:
    """Which gallery items are right for each query, as one flat list with the start of each query's part."""

    items: Ints
    starts: Ints
    """One entry per query; no query is without a right answer."""

    @classmethod
    def one_each(cls, items: Ints) -> Positives:
        """Each query has exactly one right answer."""
        return cls(items, np.arange(len(items)))

    @classmethod
    def of_pairs(cls, query: Ints, item: Ints, n: int) -> Positives:
        """Each of n queries has the items that it is paired with, in the order of the pairs."""
        counts = np.bincount(query, minlength=n)
        return cls(item[np.argsort(query, kind="stable")], np.concatenate([[0], np.cumsum(counts)[:-1]]))

    def counts(self) -> Ints:
        """Return the number of right answers of each query."""
        return np.diff(np.append(self.starts, len(self.items)))

    def queries(self) -> Ints:
        """Return the query of each right answer."""
        return np.repeat(np.arange(len(self.starts)), self.counts())


class Gallery:
    """Queries and the items that they search, with what all counts need to know of them."""

    def __init__(self, queries: Vectors, items: Vectors) -> None:
        self.queries, self.items = in_range(queries), in_range(items)
        _, self.same, _ = distinct_rows(items)
        self.error: Floats = rounding_error(self.queries, self.items)

    def own_scores(self, positives: Positives) -> Floats:
        """Return the score of each right answer, in the order of ``positives``."""
        query = positives.queries()
        own = dots(self.queries, self.items, query, positives.items)
        own[zero_rows(self.queries)[query] | zero_rows(self.items)[positives.items]] = LOWEST
        return own


@dataclass(frozen=True, slots=True)
class Tile:
    """A part of the score matrix, in float32; right answers are minus infinity."""

    rows: slice
    columns: slice
    scores: Vectors
    product: Callable[[], Floats]
    """Computes the same part in float64, once."""

    @property
    def turned(self) -> Tile:
        """Return the tile of the search the other way round."""
        return Tile(self.columns, self.rows, self.scores.T, lambda: self.product().T)


class RankCounter:
    """Counts, tile by tile, how many wrong items reach the score of a target; at most one target per query.

    A float32 product is fast but rounds, and differently at different places of a matrix. How much is bounded: by
    dim * 2**-24 times the lengths of both vectors. What is farther than that from the target's score (which is
    computed in float64) is decided by float32; the few pairs that are nearer are computed again in float64.
    """

    def __init__(self, gallery: Gallery, query: Ints, own: Floats, item: Ints) -> None:
        """Set up the counts for targets: their queries (ascending), scores and places in the gallery."""
        self.gallery, self.query, self.own = gallery, query, own
        self.row = gallery.same[item]
        error = gallery.error[query]
        self.low = np.nextafter((own - error).astype(np.float32), np.float32(-np.inf))
        self.high = np.nextafter((own + error).astype(np.float32), np.float32(np.inf))
        self.above = np.zeros(len(query), np.int64)
        self.equal = np.zeros(len(query), np.int64)

    @property
    def tied(self) -> Flags:
        """Tell where a wrong item stands before the target although its score is not higher."""
        return np.asarray((self.equal > 0) | ((self.own == LOWEST) & (self.above > 0)), bool)

    def count(self, tile: Tile) -> None:
        """Add a part of the score matrix."""
        first, last = np.searchsorted(self.query, (tile.rows.start, tile.rows.stop))
        if first == last:
            return
        every = last - first == len(tile.scores)
        mine = tile.scores if every else tile.scores[self.query[first:last] - tile.rows.start]
        surely = mine > self.high[first:last, None]
        maybe = mine >= self.low[first:last, None]
        certain = _count(surely)
        self.above[first:last] += certain
        unclear = np.flatnonzero(_count(maybe) > certain)
        if len(unclear):
            row, column = np.nonzero(maybe[unclear] & ~surely[unclear])
            self._decide(unclear[row] + first, column + tile.columns.start, tile)

    def _decide(self, target: Ints, item: Ints, tile: Tile) -> None:
        """Compare pairs whose float32 score is too near to the target's."""
        # A copy of the right answer has its score by definition.
        copy = self.gallery.same[item] == self.row[target]
        self.equal += self._per_target(target[copy])
        target, item = target[~copy], item[~copy]
        if len(target) > tile.scores.size // DENSE:
            target, item = self._decide_most(target, item, tile)
        exact = dots(self.gallery.queries, self.gallery.items, self.query[target], item)
        self.above += self._per_target(target[exact > self.own[target]])
        self.equal += self._per_target(target[exact == self.own[target]])

    def _decide_most(self, target: Ints, item: Ints, tile: Tile) -> tuple[Ints, Ints]:
        """Compare in float64 (a model whose vectors are nearly all the same); return what is still unclear."""
        query = self.query[target]
        beyond = tile.product()[query - tile.rows.start, item - tile.columns.start] - self.own[target]
        clear = np.abs(beyond) > 2 * FLOAT64_SHARE * self.gallery.error[query]
        self.above += self._per_target(target[clear & (beyond > 0)])
        return target[~clear], item[~clear]

    def _per_target(self, target: Ints) -> Ints:
        return np.bincount(target, minlength=len(self.own))


def tiles(searched: Gallery, positives: Positives) -> Iterator[Tile]:
    """Yield the score matrix in parts. Each part overwrites the last."""
    queries, gallery = searched.queries, searched.items
    height, width = TILE
    owner = positives.queries()
    ends = np.append(positives.starts, len(positives.items))
    space = np.empty(min(height, len(queries)) * min(width, len(gallery)), np.float32)
    for top in range(0, len(queries), height):
        rows = slice(top, min(top + height, len(queries)))
        right = slice(ends[rows.start], ends[rows.stop])
        row, column = owner[right] - top, positives.items[right]
        for left in range(0, len(gallery), width):
            columns = slice(left, min(left + width, len(gallery)))
            shape = (rows.stop - top, columns.stop - left)
            scores = space[: shape[0] * shape[1]].reshape(shape)
            np.matmul(queries[rows], gallery[columns].T, out=scores)
            inside = (column >= left) & (column < columns.stop)
            scores[row[inside], column[inside] - left] = -np.inf
            yield Tile(rows, columns, scores, cache(partial(_float64_product, queries[rows], gallery[columns])))


def _float64_product(queries: Vectors, gallery: Vectors) -> Floats:
    return np.asarray(queries.astype(np.float64) @ gallery.astype(np.float64).T)


def _count(flags: Flags) -> Ints:
    """Count what is true in each row, fast for rows and for columns of a contiguous array."""
    if flags.flags.c_contiguous:
        return np.array([np.count_nonzero(row) for row in flags], np.int64)
    # Up to 255 ones fit into a byte; whole rows of the transposed array are added at once.
    parts = (flags[:, start : start + 255].view(np.uint8) for start in range(0, flags.shape[1], 255))
    return sum((part.sum(axis=1, dtype=np.uint8).astype(np.int64) for part in parts), np.zeros(len(flags), np.int64))


def dots(queries: Vectors, gallery: Vectors, rows: Ints, columns: Ints) -> Floats:
    """Multiply chosen pairs in float64, always in the same order: equal vectors give equal scores."""
    out = np.empty(len(rows), np.float64)
    step = max(1, PAIRS_BYTES // (16 * max(1, gallery.shape[1])))
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        products = queries[rows[part]].astype(np.float64)
        products *= gallery[columns[part]]
        out[part] = products.sum(axis=1)
    return out


def rounding_error(queries: Vectors, gallery: Vectors) -> Floats:
    """Bound how far a float32 product with any item can be from the exact one, for each query."""
    relative = 2.0**-24 * _lengths(queries) * _lengths(gallery).max(initial=0)
    bound: Floats = (gallery.shape[1] + 1) * (relative + SMALLEST)
    return bound


def _lengths(vectors: Vectors) -> Floats:
    """Return the length of each row, a little more rather than less."""
    lengths: Floats = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)) * 1.001
    return lengths
