"""Exact search in bounded memory: which gallery items score at least as high as a given one, by float64 scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eyechart.errors import ModelError
from eyechart.metrics.maxsim import LOWEST, maxsim, pair_scores
from eyechart.metrics.vectors import (
    AnyVectors,
    Flags,
    Floats,
    Ints,
    MultiVectors,
    Vectors,
    distinct_rows,
    in_range,
    row_dots,
    zero_rows,
)

TILE = (768, 8192)
"""Rows and columns of the tile of the score matrix that is held in memory."""
PIECE = 128
"""Rows of a tile that are compared at once: they fit into the caches, and their counts into a byte."""
SPARSE = 32
"""If at most one score in this many reaches its target, the scores are examined one by one."""
BUCKETS = 2048
"""If more scores of a row than this matter, only those that share a bucket with a target are sorted."""
FEW = 8
"""Up to this many targets, many scores are compared with each of them."""
NARROWEST = 2.0**-60
"""Targets closer to each other than this, or farther than its inverse, get no buckets: float32 might overflow."""
NARROW = 1 / 16
"""Vectors count as collapsed if they are this close to their mean, relative to its length."""
DENSE = 24
"""If more than one pair in this many needs float64, the whole tile is computed in it."""
SMALLEST = 2.0**-149
"""The smallest positive float32; smaller products underflow."""
VANISHING = 2.0**-63
"""Squares of smaller numbers are denormal or zero in float32."""
FLOAT64_SHARE = 2.0**-29
"""Rounding error of float64 relative to float32."""
_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Positives:
    """Correct gallery items of each query, as one flat list with the start of each query's part."""

    items: Ints
    starts: Ints
    """One entry per query; every query has a correct item."""

    @classmethod
    def one_each(cls, items: Ints) -> Positives:
        """Build positives with exactly one correct item per query."""
        return cls(items, np.arange(len(items)))

    @classmethod
    def of_pairs(cls, query: Ints, item: Ints, n: int) -> Positives:
        """Build positives of n queries from pairs, keeping the order of the pairs."""
        counts = np.bincount(query, minlength=n)
        return cls(item[np.argsort(query, kind="stable")], np.concatenate([[0], np.cumsum(counts)[:-1]]))

    def counts(self) -> Ints:
        """Return the number of correct items of each query."""
        return np.diff(np.append(self.starts, len(self.items)))

    def queries(self) -> Ints:
        """Return the query of each correct item."""
        return np.repeat(np.arange(len(self.starts)), self.counts())


@dataclass(frozen=True, slots=True)
class Gallery:
    """Queries and the items they search, with precomputed values shared by all counts."""

    queries: AnyVectors
    items: AnyVectors
    same: Ints
    """Id of each item's distinct row."""
    factors: Factors

    @classmethod
    def of(cls, queries: AnyVectors, items: AnyVectors) -> Gallery:
        """Precompute the shared values."""
        queries, items = in_range(queries), in_range(items)
        return cls(queries, items, distinct_rows(items)[1], factors(queries, items))

    @property
    def turned(self) -> Gallery:
        """The same search with queries and items swapped."""
        return Gallery(self.items, self.queries, distinct_rows(self.queries)[1], self.factors.turned)

    def scores(self, query: Ints, item: Ints) -> Floats:
        """Return the scores of correct (query, item) pairs."""
        own = dots(self.queries, self.items, query, item)
        own[zero_rows(self.queries)[query] | zero_rows(self.items)[item]] = LOWEST
        return own


@dataclass(frozen=True, slots=True)
class Tile:
    """A part of the score matrix, in float32; correct items are minus infinity."""

    rows: slice
    columns: slice
    scores: Vectors
    product: Callable[[], Floats]
    """Computes the same part in float64, once."""

    @property
    def turned(self) -> Tile:
        """The tile with queries and items swapped."""
        return Tile(self.columns, self.rows, self.scores.T, lambda: self.product().T)


class RankCounter:
    """Counts, tile by tile, how many wrong items reach the score of a target; a query may have several targets.

    A float32 product is fast but rounds, depending on its position in the matrix. The error is bounded by dim * 2**-24
    times the lengths of both vectors. Scores outside this bound of the target's float64 score are decided in float32;
    the few pairs within it are recomputed in float64.
    """

    def __init__(self, gallery: Gallery, query: Ints, own: Floats, item: Ints) -> None:
        """Initialise the counts of targets: their queries (ascending), scores and gallery positions."""
        self.gallery, self.query, self.own = gallery, query, own
        self.row = gallery.same[item]
        error, beyond = gallery.factors.error[query], own - gallery.factors.constant
        self.low = np.nextafter((beyond - error).astype(np.float32), np.float32(-np.inf))
        self.high = np.nextafter((beyond + error).astype(np.float32), np.float32(np.inf))
        self.above = np.zeros(len(query), np.int64)
        self.equal = np.zeros(len(query), np.int64)
        self.highest = np.full(len(gallery.queries), -np.inf)
        """By query, the highest float32 score of a wrong item."""

    @property
    def tied(self) -> Flags:
        """Whether a wrong item without a higher score ranks before the target."""
        return np.asarray((self.equal > 0) | ((self.own == LOWEST) & (self.above > 0)), bool)

    def count(self, tile: Tile) -> None:
        """Add the counts of a tile."""
        first, last = np.searchsorted(self.query, (tile.rows.start, tile.rows.stop))
        if first == last:
            return
        best = self.highest[tile.rows]
        np.maximum(best, tile.scores.max(axis=1) + self.gallery.factors.constant, out=best)
        row = self.query[first:last] - tile.rows.start
        if len(row) == len(tile.scores) and bool((np.diff(row) == 1).all()):  # one target each
            target, column = self._count_one_each(tile.scores, slice(first, last))
        else:
            target, column = self._count_several(tile.scores, row, first)
        if len(target):
            self._decide(target, column + tile.columns.start, tile)

    def _count_one_each(self, scores: Vectors, targets: slice) -> tuple[Ints, Ints]:
        """Count for one target per row; return the undecided targets and columns."""
        turned = not scores.flags.c_contiguous
        memory = scores.T if turned else scores
        low, high, above = self.low[targets], self.high[targets], self.above[targets]
        found = []
        for start in range(0, len(memory), PIECE):
            part = memory[start : start + PIECE]
            rows = slice(start, start + len(part))
            maybe = part >= (low if turned else low[rows, None])
            if np.count_nonzero(maybe) > maybe.size // SPARSE:
                surely = part > (high if turned else high[rows, None])
                maybe ^= surely
                if turned:
                    above += np.add.reduce(surely.view(np.uint8), axis=0, dtype=np.uint8)
                else:
                    above[rows] += [np.count_nonzero(row) for row in surely]
            # numpy finds few matches in a flat array much faster than in rows and columns.
            near = np.flatnonzero(maybe)
            row, column = np.divmod(near, memory.shape[1])
            row += start
            found.append((column, row) if turned else (row, column))
        target, other = (np.concatenate(side) for side in zip(*found, strict=True))
        # In sparse pieces these are still among the undecided.
        surely = memory[(other, target) if turned else (target, other)] > high[target]
        above += np.bincount(target[surely], minlength=len(above))
        return target[~surely] + targets.start, other[~surely]

    def _count_several(self, scores: Vectors, rows: Ints, first: int) -> tuple[Ints, Ints]:
        """Count for any number of targets per row, without copying the row for each."""
        targets, columns = [_NONE], [_NONE]
        heads = np.flatnonzero(np.diff(rows, prepend=-1))
        for head, end in zip(heads, [*heads[1:], len(rows)], strict=True):
            own, row = slice(int(first + head), int(first + end)), scores[rows[head]]
            certain, unclear = _counts(row, self.low[own], self.high[own])
            self.above[own] += certain
            columns += unclear
            targets.append(np.repeat(np.arange(own.start, own.stop), list(map(len, unclear))))
        return np.concatenate(targets), np.concatenate(columns)

    def _decide(self, target: Ints, item: Ints, tile: Tile) -> None:
        """Compare pairs whose float32 score is too close to the target's."""
        # A copy of the correct item has its score by definition.
        copy = self.gallery.same[item] == self.row[target]
        self.equal += self._per_target(target[copy])
        target, item = target[~copy], item[~copy]
        if len(target) > tile.scores.size // DENSE:  # a collapsed model: compare in float64 first
            query = self.query[target]
            beyond = tile.product()[query - tile.rows.start, item - tile.columns.start] - self.own[target]
            clear = np.abs(beyond) > self.gallery.factors.float64_error[query]
            self.above += self._per_target(target[clear & (beyond > 0)])
            target, item = target[~clear], item[~clear]
        exact = dots(self.gallery.queries, self.gallery.items, self.query[target], item)
        self.above += self._per_target(target[exact > self.own[target]])
        self.equal += self._per_target(target[exact == self.own[target]])

    def _per_target(self, target: Ints) -> Ints:
        return np.bincount(target, minlength=len(self.own))


def _counts(row: Vectors, low: Vectors, high: Vectors) -> tuple[Ints, list[Ints]]:
    """Count the scores above each upper bound, and list those between the bounds."""
    near, beyond = np.flatnonzero(row >= low.min()), np.zeros(len(low), np.int64)
    if len(near) > BUCKETS and len(low) <= FEW:
        return _few_counts(row, low, high)
    if len(near) > BUCKETS and NARROWEST < high.max() - low.min() < 1 / NARROWEST:
        near, beyond = _near_ends(row, low, high)
    near = near[np.argsort(row[near])]
    scores = row[near]
    first, last = np.searchsorted(scores, low, "left"), np.searchsorted(scores, high, "right")
    between = [near[start:end] for start, end in zip(first.tolist(), last.tolist(), strict=True)]
    return beyond + len(near) - last, between


def _few_counts(row: Vectors, low: Vectors, high: Vectors) -> tuple[Ints, list[Ints]]:
    """Compare the scores with each of a few bounds, which is faster than sorting."""
    above = np.array([np.count_nonzero(row > end) for end in high], np.int64)
    some = [np.count_nonzero(row >= start) for start in low] > above
    ends = zip(low, high, some.tolist(), strict=True)
    return above, [np.flatnonzero((row >= start) & (row <= end)) if any_ else _NONE for start, end, any_ in ends]


def _near_ends(row: Vectors, low: Vectors, high: Vectors) -> tuple[Ints, Ints]:
    """Return the scores that share a bucket with an interval, and for each interval the number of others beyond it.

    Rounding is monotonic, so a higher score is in the same bucket or in a later one.
    """
    bottom = low.min()
    scale = np.float32(BUCKETS) / (high.max() - bottom)

    def bucket(scores: Vectors) -> Ints:
        return np.asarray(np.clip((scores - bottom) * scale, -1, BUCKETS), np.int64) + 1

    places, first, last = bucket(row), bucket(low), bucket(high)
    most = BUCKETS + 2
    near = np.cumsum(np.bincount(first, minlength=most) - np.bincount(last + 1, minlength=most + 1)[:most]) > 0
    others = np.bincount(places, minlength=most)
    others[near] = 0
    return np.flatnonzero(near[places]), np.cumsum(others[::-1])[::-1][last]


def tiles(searched: Gallery, positives: Positives) -> Iterator[Tile]:
    """Yield the score matrix tile by tile, reusing one buffer."""
    queries, gallery = searched.queries, searched.items
    left_factors, right_factors = searched.factors.queries, searched.factors.items
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
            multiply(left_factors[rows], right_factors[columns], scores)
            inside = (column >= left) & (column < columns.stop)
            scores[row[inside], column[inside] - left] = -np.inf
            yield Tile(rows, columns, scores, cache(partial(float64_product, queries[rows], gallery[columns])))


def multiply(queries: AnyVectors, items: AnyVectors, out: NDArray[Any] | None = None) -> NDArray[Any]:
    """Score all queries with all items in float32, by dot product or MaxSim."""
    if isinstance(queries, MultiVectors) and isinstance(items, MultiVectors):
        scores = maxsim(queries, items)
        if out is not None:
            out[...] = scores
        return scores
    product: NDArray[Any] = np.matmul(queries, items.T, out=out)  # type: ignore[union-attr,arg-type]
    return product


@dataclass(frozen=True, slots=True)
class Factors:
    """Vectors whose float32 products are the scores up to a constant, with error bounds."""

    queries: AnyVectors
    items: AnyVectors
    constant: float
    lengths: tuple[Floats, Floats]
    """Lengths of the multiplied rows; with several vectors per item, their sum (queries) and maximum (items)."""
    float64_lengths: tuple[Floats, Floats]
    """Lengths of the original vectors."""

    @property
    def turned(self) -> Factors:
        """The factors with queries and items swapped."""
        return Factors(self.items, self.queries, self.constant, self.lengths[::-1], self.float64_lengths[::-1])

    @property
    def terms(self) -> int:
        """Number of terms of a score."""
        several = int(self.queries.sizes.max(initial=0)) if isinstance(self.queries, MultiVectors) else 0
        return int(self.items.shape[1]) + several

    @property
    def error(self) -> Floats:
        """Error bound of each query's products."""
        # Products; and, if means were subtracted, the rounding of small numbers to float32 and of float64 before.
        return _rounding_error(*self.lengths, self.terms + 2) + 4 * self.float64_error

    @property
    def float64_error(self) -> Floats:
        """Error bound of float64 products of the original vectors, for each query."""
        return 2 * FLOAT64_SHARE * _rounding_error(*self.float64_lengths, self.terms)


def factors(queries: AnyVectors, items: AnyVectors) -> Factors:
    """Return the vectors to multiply: the originals, unless nearly all of them are the same.

    Scores of a collapsed model are too close for float32 to separate, so the common part is subtracted first: for
    vectors q = p + a and g = r + b, where p and r are the means, the score is the constant p r plus the small terms a b
    + a r + p b, which are a single product of vectors with two more components.

    Raises:
        ModelError: If one item has several vectors and another a single one, or NaN is among several vectors.
    """
    if isinstance(queries, MultiVectors) and isinstance(items, MultiVectors):
        several = _joined_lengths(queries, np.add), _joined_lengths(items, np.maximum)
        return Factors(queries, items, 0.0, several, several)
    if isinstance(queries, MultiVectors) or isinstance(items, MultiVectors):
        raise ModelError("Single vectors cannot be compared with several vectors per item.")
    lengths = _lengths(queries), _lengths(items)
    if not all(map(_is_narrow, (queries, items), lengths)):
        return Factors(queries, items, 0.0, lengths, lengths)
    middle, centre = (rows.mean(axis=0, dtype=np.float64) for rows in (queries, items))
    a, b = queries - middle, items - centre
    ar, pb = a @ centre, b @ middle
    # The error bound grows with the lengths of both factors, so both should be small.
    largest = max(float(np.abs(ar).max()), float(np.abs(pb).max()), SMALLEST)
    scale = 2.0 ** round(math.log2(largest) / 2)
    left = np.column_stack([a, ar / scale, np.full(len(a), scale)]).astype(np.float32)
    right = np.column_stack([b, np.full(len(b), scale), pb / scale]).astype(np.float32)
    return Factors(left, right, float(middle @ centre), (_lengths(left), _lengths(right)), lengths)


def _is_narrow(vectors: Vectors, lengths: Floats) -> bool:
    mean = vectors.mean(axis=0, dtype=np.float64)
    length = float(mean @ mean)
    squares = lengths**2 - 2 * (vectors @ mean.astype(np.float32)) + length
    return len(vectors) > 1 and bool(squares.max() < NARROW**2 * length)


def float64_product(queries: AnyVectors, gallery: AnyVectors) -> Floats:
    """Score all queries with all items in float64."""
    if isinstance(queries, MultiVectors) and isinstance(gallery, MultiVectors):
        return maxsim(queries, gallery, np.float64)
    return np.asarray(queries.astype(np.float64) @ gallery.astype(np.float64).T)  # type: ignore[union-attr]


def dots(queries: AnyVectors, gallery: AnyVectors, rows: Ints, columns: Ints) -> Floats:
    """Score chosen pairs in float64, always in the same order: equal vectors give equal scores."""
    if isinstance(queries, MultiVectors) and isinstance(gallery, MultiVectors):
        return pair_scores(queries, gallery, rows, columns)
    return row_dots(queries, gallery, rows, columns)  # type: ignore[arg-type]  # both have one vector per item


def score_lists(lists: Ints, queries: AnyVectors, documents: AnyVectors) -> Floats:
    """Score listed documents by dot product or MaxSim in float64; empty slots get minus infinity."""
    row, column = np.nonzero(lists >= 0)
    scores = np.full(lists.shape, -np.inf)
    scores[row, column] = dots(queries, documents, row, lists[row, column])
    return scores


def _rounding_error(queries: Floats, items: Floats, terms: int) -> Floats:
    """Bound the rounding error of a float32 product with this many terms, given the lengths of queries and items."""
    return np.asarray((terms + 1) * (2.0**-24 * queries * items.max(initial=0) + SMALLEST))


def _lengths(vectors: Vectors) -> Floats:
    """Return an upper bound of each row's length, as float32 rounds and drops the smallest squares."""
    squares = np.einsum("ij,ij->i", vectors, vectors, dtype=np.float32).astype(np.float64)
    dim = vectors.shape[1]
    return np.asarray(np.sqrt(squares) * (1.001 + dim * 2.0**-24) + math.sqrt(dim) * VANISHING, np.float64)


def _joined_lengths(vectors: MultiVectors, join: np.ufunc) -> Floats:
    """Return the sum or the maximum of the lengths of each item's vectors; 0 without vectors."""
    rows, filled = _lengths(vectors.rows), np.flatnonzero(vectors.sizes)
    if not np.isfinite(rows).all():
        raise ModelError(
            "{bad} vectors contain NaN or infinite values.",
            advice="Check the weights and the precision.",
            bad=int((~np.isfinite(rows)).sum()),
        )
    out = np.zeros(len(vectors))
    out[filled] = join.reduceat(rows, vectors.starts[filled]) if len(filled) else 0
    return out
