"""Retrieval between images and captions: the rank of the best right answer, exactly, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eyechart.metrics.vectors import Vectors, distinct_rows

BLOCK_BYTES = 64 * 1024 * 1024
"""Scores are made in blocks of at most this size, whatever the size of the gallery."""
PAIRS_BYTES = 8 * 1024 * 1024
"""Single pairs are multiplied in blocks of about this size."""
TILE = (512, 8192)
"""Rows and columns of the part of the score matrix that exists at a time."""
DENSE = 32
"""If more than one pair in this many needs float64, the whole tile is computed so."""
FLOAT64_SHARE = 2.0**-29
"""How much less float64 rounds than float32."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


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
    def inverse(cls, owner: Ints, n: int) -> Positives:
        """Query q has every item whose owner is q as right answer (captions of an image)."""
        items = np.argsort(owner, kind="stable")
        counts = np.bincount(owner, minlength=n)
        return cls(items, np.concatenate([[0], np.cumsum(counts)[:-1]]))

    def counts(self) -> Ints:
        """Return the number of right answers of each query."""
        return np.diff(np.append(self.starts, len(self.items)))


@dataclass(frozen=True, slots=True)
class Ranks:
    """The rank of the best right answer of each query."""

    ranks: Ints
    """1 is best; wrong items with the same score stand before the right one."""
    tied: Flags
    """Whether a wrong item has the same score as the best right one."""


def rank_positives(queries: Vectors, gallery: Vectors, positives: Positives) -> Ranks:
    """Rank the gallery by dot product for each query and find the best right answer.

    Hit rate at k is then the share of ranks up to k. That is what the CLIP literature calls recall@k: at least
    one right answer among the first k, however many right answers there are.

    The score matrix never exists as a whole, only one `TILE` of it. Ranks are those of float64 scores, so they do not
    depend on tiles, threads or the linear algebra library: see `_Search`.
    """
    asked = np.repeat(np.arange(len(queries)), positives.counts())
    search = _Search(queries, gallery, positives, _dots(queries, gallery, asked, positives.items))
    for rows, columns, scores in _tiles(queries, gallery, positives):
        search.count(scores, rows, columns)
    return search.ranks()


def rank_both_ways(images: Vectors, texts: Vectors, owner: Ints) -> tuple[Ranks, Ranks]:
    """Rank images for each text and texts for each image in one pass: half the work of two.

    Args:
        images: One row per image.
        texts: One row per caption.
        owner: For each caption, the position of its image; no image is without a caption.

    Returns:
        The ranks of the images (one per text) and of the texts (one per image).
    """
    to_images, to_texts = Positives.one_each(owner), Positives.inverse(owner, len(images))
    own = _dots(texts, images, np.arange(len(texts)), owner)
    for_texts = _Search(texts, images, to_images, own)
    for_images = _Search(images, texts, to_texts, own[to_texts.items])
    for rows, columns, scores in _tiles(texts, images, to_images):
        for_texts.count(scores, rows, columns)
        for_images.count(scores.T, columns, rows)
    return for_texts.ranks(), for_images.ranks()


class _Search:
    """Counts, tile by tile, how many wrong items reach the best right answer of each query.

    A float32 product is fast but rounds, and differently at different places of a matrix. How much is bounded: by
    dim * 2**-24 times the lengths of both vectors. What is farther than that from the right answer's score (which is
    computed in float64) is decided by float32; the few pairs that are nearer are computed again in float64.
    """

    def __init__(self, queries: Vectors, gallery: Vectors, positives: Positives, own: Floats) -> None:
        """Set up the counts; ``own`` are the scores of the right answers, in the order of ``positives``."""
        self.queries, self.gallery = queries, gallery
        _, self.same, _ = distinct_rows(gallery)
        right = np.repeat(np.arange(len(queries)), positives.counts())
        self.best: Floats = np.maximum.reduceat(own, positives.starts)
        # A query may have several right answers with its best score: all copies of one row have one number.
        best = np.flatnonzero(own == self.best[right])
        self.best_row = np.empty(len(queries), np.int64)
        self.best_row[right[best]] = self.same[positives.items[best]]
        self.error: Floats = (gallery.shape[1] + 1) * 2.0**-24 * _lengths(queries) * _lengths(gallery).max(initial=0)
        self.low = np.nextafter((self.best - self.error).astype(np.float32), np.float32(-np.inf))
        self.high = np.nextafter((self.best + self.error).astype(np.float32), np.float32(np.inf))
        self.above = np.zeros(len(queries), np.int64)
        self.equal = np.zeros(len(queries), np.int64)

    def count(self, scores: Vectors, rows: slice, columns: slice) -> None:
        """Add a part of the score matrix, in which right answers are minus infinity."""
        surely = scores > self.high[rows, None]
        maybe = scores >= self.low[rows, None]
        certain = _count(surely)
        self.above[rows] += certain
        unclear = np.flatnonzero(_count(maybe) > certain)
        if len(unclear):
            row, column = np.nonzero(maybe[unclear] & ~surely[unclear])
            query, item = unclear[row] + rows.start, column + columns.start
            # A copy of the right answer has its score by definition.
            copy = self.same[item] == self.best_row[query]
            self.equal += self._per_query(query[copy])
            query, item = query[~copy], item[~copy]
            if len(query) > scores.size // DENSE:
                query, item = self._decide_most(query, item, rows, columns)
            exact = _dots(self.queries, self.gallery, query, item)
            self.above += self._per_query(query[exact > self.best[query]])
            self.equal += self._per_query(query[exact == self.best[query]])

    def _decide_most(self, query: Ints, item: Ints, rows: slice, columns: slice) -> tuple[Ints, Ints]:
        """Compute the tile in float64 (a model whose vectors are nearly all the same); return what is still unclear."""
        tile = self.queries[rows].astype(np.float64) @ self.gallery[columns].astype(np.float64).T
        beyond = tile[query - rows.start, item - columns.start] - self.best[query]
        clear = np.abs(beyond) > 2 * FLOAT64_SHARE * self.error[query]
        self.above += self._per_query(query[clear & (beyond > 0)])
        return query[~clear], item[~clear]

    def _per_query(self, query: Ints) -> Ints:
        return np.bincount(query, minlength=len(self.best))

    def ranks(self) -> Ranks:
        """Return the ranks when all tiles are counted."""
        return Ranks(self.above + self.equal + 1, self.equal > 0)


def _tiles(queries: Vectors, gallery: Vectors, positives: Positives) -> Iterator[tuple[slice, slice, Vectors]]:
    """Yield the score matrix in parts, with minus infinity where an answer is right. Each part overwrites the last."""
    height, width = TILE
    owner = np.repeat(np.arange(len(queries)), positives.counts())
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
            yield rows, columns, scores


def _count(flags: Flags) -> Ints:
    """Count what is true in each row, fast for rows and for columns of a contiguous array."""
    if flags.flags.c_contiguous:
        return np.array([np.count_nonzero(row) for row in flags], np.int64)
    # Up to 255 ones fit into a byte; whole rows of the transposed array are added at once.
    parts = (flags[:, start : start + 255].view(np.uint8) for start in range(0, flags.shape[1], 255))
    return sum((part.sum(axis=1, dtype=np.uint8).astype(np.int64) for part in parts), np.zeros(len(flags), np.int64))


def _dots(queries: Vectors, gallery: Vectors, rows: Ints, columns: Ints) -> Floats:
    """Multiply chosen pairs in float64, always in the same order: equal vectors give equal scores."""
    out = np.empty(len(rows), np.float64)
    step = max(1, PAIRS_BYTES // (16 * max(1, gallery.shape[1])))
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        products = queries[rows[part]].astype(np.float64)
        products *= gallery[columns[part]]
        out[part] = products.sum(axis=1)
    return out


def _lengths(vectors: Vectors) -> Floats:
    """Return the length of each row, a little more rather than less."""
    lengths: Floats = np.sqrt(np.einsum("ij,ij->i", vectors, vectors).astype(np.float64)) * 1.001
    return lengths


def hit_rate(ranks: Ints, k: int) -> float:
    """Return the share of queries with a right answer among the first ``k``: CLIP's "recall@k"."""
    return float(np.mean(ranks <= k))


def top_items(queries: Vectors, gallery: Vectors, k: int) -> tuple[Ints, Vectors]:
    """Return the ``k`` best gallery items of each query with their scores, for showing to people."""
    k = min(k, len(gallery))
    items, values = np.empty((len(queries), k), np.int64), np.empty((len(queries), k), np.float32)
    step = max(1, BLOCK_BYTES // (12 * len(gallery)))
    for start in range(0, len(queries), step):
        scores = queries[start : start + step] @ gallery.T
        some = np.argpartition(-scores, k - 1, axis=1)[:, :k]
        values_of_some = np.take_along_axis(scores, some, axis=1)
        order = np.lexsort((some, -values_of_some), axis=1)
        items[start : start + step] = np.take_along_axis(some, order, axis=1)
        values[start : start + step] = np.take_along_axis(values_of_some, order, axis=1)
    return items, values
