"""Ranked retrieval with any number of relevant items, graded or not: recall, precision, MRR, MAP, nDCG, hit rate.

Everything is computed from the ranks of the relevant items, so a ranking is never stored. Each metric gives one
value per query; the figure that people quote is their mean. The conventions are trec_eval's (gains as they are, MAP
and recall over all relevant items, precision over k), except that ties never help: where scores are equal, trec_eval
puts the greater document id first, and this module puts the less relevant document first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eyechart.metrics.retrieval import BLOCK_BYTES, Positives
from eyechart.metrics.vectors import Vectors, distinct_rows

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

NOT_FOUND = np.iinfo(np.int64).max
"""The rank of a relevant item that is not in the answer at all."""


@dataclass(frozen=True, slots=True)
class RelevantRanks:
    """Where the relevant items of each query stand in its answer, query after query, best rank first."""

    ranks: Ints
    """1 is best; `NOT_FOUND` if the answer was cut before the item."""
    gains: Floats
    """How relevant each item is; 1 everywhere if relevance is yes or no."""
    starts: Ints
    """The first entry of each query; no query is without a relevant item."""
    tied: NDArray[np.bool_]
    """For each query, whether a less relevant item has the same score as one of its relevant items."""

    @classmethod
    def from_rows(cls, query: Ints, ranks: Ints, gains: Floats, tied: NDArray[np.bool_]) -> RelevantRanks:
        """Make the value from one row per relevant item, in any order; ``tied`` has one entry per query."""
        order = np.lexsort((ranks, query))
        return cls(ranks[order], gains[order], np.searchsorted(query[order], np.arange(len(tied))), tied)

    @property
    def counts(self) -> Ints:
        """Return the number of relevant items of each query."""
        return np.diff(np.append(self.starts, len(self.ranks)))

    @property
    def best(self) -> Ints:
        """Return the rank of each query's first relevant item."""
        return self.ranks[self.starts]


def rank_relevant(
    queries: Vectors, gallery: Vectors, positives: Positives, gains: Floats | None = None
) -> RelevantRanks:
    """Rank the whole gallery by dot product for each query and find all its relevant items.

    The score matrix never exists as a whole: memory is bounded by `BLOCK_BYTES`.

    Args:
        queries: One row per query; unit length for cosine.
        gallery: One row per item.
        positives: The relevant items of each query.
        gains: How relevant each of them is, above 0; without it, 1.
    """
    first, item_of, copies = distinct_rows(gallery)
    weights = None if bool((copies == 1).all()) else copies
    columns = np.ascontiguousarray(gallery[first].T)
    ends = np.append(positives.starts[1:], len(positives.items))
    above, level = np.empty(len(positives.items), np.int64), np.empty(len(positives.items), np.int64)
    own = np.empty(len(positives.items), np.float32)
    step = max(1, BLOCK_BYTES // (5 * len(first)))
    for start in range(0, len(queries), step):
        rows = np.arange(start, min(start + step, len(queries)))
        scores = queries[rows] @ columns
        for offset in range(int((ends - positives.starts)[rows].max())):
            has = positives.starts[rows] + offset < ends[rows]
            at = positives.starts[rows[has]] + offset
            score = scores[has, item_of[positives.items[at]]]
            own[at] = score
            above[at] = _count(scores[has] > score[:, None], weights)
            level[at] = _count(scores[has] == score[:, None], weights)
    return _order(above, level, own, positives.starts, gains)


def _count(mask: NDArray[np.bool_], weights: Ints | None) -> Ints:
    """Count the true columns of each row, each as often as its weight says."""
    return np.asarray(np.count_nonzero(mask, axis=1) if weights is None else mask @ weights, np.int64)


def rank_in_lists(items: Ints, scores: Floats, positives: Positives, gains: Floats | None = None) -> RelevantRanks:
    """Find the relevant items in answers that hold only a few items each, such as a reranker's.

    Args:
        items: Shape (queries, k): which items each answer holds, in any order; -1 is no item.
        scores: Shape (queries, k): their scores.
        positives: The relevant items of each query, found or not.
        gains: How relevant each of them is, above 0; without it, 1.
    """
    row = np.repeat(np.arange(len(items)), positives.counts())
    above, level = np.full(len(row), NOT_FOUND), np.ones(len(row), np.int64)
    own = np.full(len(row), -np.inf)
    real = items >= 0
    for at, (query, item) in enumerate(zip(row, positives.items, strict=True)):
        found = np.flatnonzero(items[query] == item)
        if len(found):
            own[at] = scores[query, found[0]]
            above[at] = np.count_nonzero(real[query] & (scores[query] > own[at]))
            level[at] = np.count_nonzero(real[query] & (scores[query] == own[at]))
    return _order(above, level, own, positives.starts, gains)


def _order(above: Ints, level: Ints, own: NDArray[np.floating], starts: Ints, gains: Floats | None) -> RelevantRanks:
    """Turn counts into ranks: among equal scores the less relevant stand first, the relevant last.

    Args:
        above: For each relevant item, how many items have a higher score, or `NOT_FOUND`.
        level: How many have the same score, itself included.
        own: Its score.
        starts: The first entry of each query.
        gains: How relevant it is.
    """
    weights = np.ones(len(above)) if gains is None else np.asarray(gains, np.float64)
    query = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(above))))
    order = np.lexsort((weights, -own, query))
    above, level, weights, own = above[order], level[order], weights[order], own[order]
    opens = np.ones(len(order), bool)
    opens[1:] = (own[1:] != own[:-1]) | (query[1:] != query[:-1])
    group = np.cumsum(opens) - 1
    size = np.bincount(group, minlength=1)[group]
    place = np.arange(len(order)) - np.flatnonzero(opens)[group]
    found = above != NOT_FOUND
    ranks = np.full(len(order), NOT_FOUND)
    ranks[found] = above[found] + (level - size + place + 1)[found]
    heads = np.flatnonzero(opens)
    mixed = (np.maximum.reduceat(weights, heads) > np.minimum.reduceat(weights, heads))[group]
    tied = np.zeros(len(starts), bool)
    np.logical_or.at(tied, query, found & ((level > size) | mixed))
    return RelevantRanks(ranks, weights, starts, tied)


def hit_rate(relevant: RelevantRanks, k: int) -> Floats:
    """1 if any relevant item is among the first ``k``, else 0 (trec_eval's success_k; CLIP's "recall@k")."""
    return (relevant.best <= k).astype(np.float64)


def recall(relevant: RelevantRanks, k: int) -> Floats:
    """Share of a query's relevant items that are among the first ``k`` (trec_eval's recall_k)."""
    return _sum(relevant, relevant.ranks <= k) / relevant.counts


def precision(relevant: RelevantRanks, k: int) -> Floats:
    """Share of the first ``k`` places that hold a relevant item (trec_eval's P_k: divided by k, however few found)."""
    return _sum(relevant, relevant.ranks <= k) / k


def reciprocal_rank(relevant: RelevantRanks, k: int) -> Floats:
    """1 / rank of the first relevant item, 0 beyond ``k`` (trec_eval's recip_rank of an answer cut at k)."""
    return np.where(relevant.best <= k, 1.0 / relevant.best, 0.0)


def average_precision(relevant: RelevantRanks, k: int) -> Floats:
    """Mean precision at the places of the relevant items, those beyond ``k`` counting 0 (trec_eval's map_cut_k)."""
    place = np.arange(len(relevant.ranks)) - np.repeat(relevant.starts, relevant.counts) + 1
    return _sum(relevant, np.where(relevant.ranks <= k, place / relevant.ranks, 0.0)) / relevant.counts


def ndcg(relevant: RelevantRanks, k: int) -> Floats:
    """Discounted gain of the first ``k`` over that of the ideal order (trec_eval's ndcg_cut_k).

    The gain is the relevance itself (not 2**relevance - 1), the discount 1 / log2(rank + 1).
    """
    query = np.repeat(np.arange(len(relevant.starts)), relevant.counts)
    ideal_gains = relevant.gains[np.lexsort((-relevant.gains, query))]
    place = np.arange(len(query)) - np.repeat(relevant.starts, relevant.counts) + 1
    return _sum(relevant, _discounted(relevant.gains, relevant.ranks, k)) / _sum(
        relevant, _discounted(ideal_gains, place, k)
    )


def _discounted(gains: Floats, ranks: Ints, k: int) -> Floats:
    return np.where(ranks <= k, gains / np.log2(1.0 + ranks), 0.0)


def _sum(relevant: RelevantRanks, values: NDArray[np.generic]) -> Floats:
    return np.add.reduceat(values.astype(np.float64), relevant.starts)


METRICS: dict[str, Callable[[RelevantRanks, int], Floats]] = {
    "ndcg": ndcg,
    "map": average_precision,
    "mrr": reciprocal_rank,
    "recall": recall,
    "precision": precision,
    "hit_rate": hit_rate,
}
"""By the names that MTEB uses: ``ndcg_at_10`` is ``METRICS["ndcg"](relevant, 10).mean()``."""
