"""Retrieval between pictures and captions: the rank of the best right answer, in blocks, ties against it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eyechart.metrics.vectors import Vectors, distinct_rows

BLOCK_BYTES = 64 * 1024 * 1024
"""Scores are made in blocks of queries of at most this size, whatever the size of the gallery."""

Ints = NDArray[np.int64]


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
        """Query q has every item whose owner is q as right answer (captions of a picture)."""
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
    tied: NDArray[np.bool_]
    """Whether a wrong item has the same score as the best right one."""


def rank_positives(queries: Vectors, gallery: Vectors, positives: Positives) -> Ranks:
    """Rank the gallery by cosine for each query and find the best right answer.

    Hit rate at k is then the share of ranks up to k. That is what the CLIP literature calls recall@k: at least
    one right answer among the first k, however many right answers there are.

    Memory is bounded by `BLOCK_BYTES`: the score matrix never exists as a whole.
    """
    first, item_of, copies = distinct_rows(gallery)
    columns = np.ascontiguousarray(gallery[first].T)
    all_once = bool((copies == 1).all())
    ends = np.append(positives.starts[1:], len(positives.items))
    ranks, tied = np.empty(len(queries), np.int64), np.empty(len(queries), bool)
    step = max(1, BLOCK_BYTES // (5 * len(first)))
    for start in range(0, len(queries), step):
        stop = min(start + step, len(queries))
        scores = queries[start:stop] @ columns
        low, high = positives.starts[start], ends[stop - 1]
        local = positives.starts[start:stop] - low
        row = np.repeat(np.arange(stop - start), ends[start:stop] - positives.starts[start:stop])
        own = scores[row, item_of[positives.items[low:high]]]
        best = np.maximum.reduceat(own, local)
        at_least = scores >= best[:, None]
        reached = np.count_nonzero(at_least, axis=1) if all_once else at_least @ copies
        right = np.add.reduceat((own == best[row]).astype(np.int64), local)
        above = scores > best[:, None]
        strictly = np.count_nonzero(above, axis=1) if all_once else above @ copies
        ranks[start:stop] = reached - right + 1
        tied[start:stop] = reached - right > strictly
    return Ranks(ranks, tied)


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
