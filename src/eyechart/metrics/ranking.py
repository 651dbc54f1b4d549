"""Ranked retrieval with any number of relevant items, graded or not: recall, precision, MRR, MAP, nDCG, hit rate.

Everything is computed from the ranks of the relevant items, so a ranking is never stored. Each metric gives one
value per query; the figure that people quote is their mean. The conventions are trec_eval's (gains as they are, MAP
and recall over all relevant items, precision over k), except that ties never help: where scores are equal, trec_eval
puts the greater document id first, and this module puts the less relevant document first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from eyechart.errors import ModelError
from eyechart.metrics.search import LOWEST, Gallery, Positives, RankCounter, tiles
from eyechart.metrics.vectors import Flags, Floats, Ints, Vectors

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
    tied: Flags
    """For each query, whether a less relevant item has the same score as one of its relevant items."""

    @classmethod
    def from_rows(cls, query: Ints, ranks: Ints, gains: Floats, tied: Flags) -> Self:
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

    The score matrix never exists as a whole, and ranks are those of float64 scores: see `eyechart.metrics.search`.

    Args:
        queries: One row per query; unit length for cosine.
        gallery: One row per item.
        positives: The relevant items of each query.
        gains: How relevant each of them is, above 0; without it, 1.
    """
    searched, query = Gallery.of(queries, gallery), positives.queries()
    own = searched.scores(query, positives.items)
    counter = RankCounter(searched, query, own, positives.items)
    for tile in tiles(searched, positives):
        counter.count(tile)
    found = _order(counter.above, counter.equal, own, positives.starts, gains)
    # A zero vector stands behind everything wrong, which is a tie as well.
    blind = np.logical_or.reduceat((own == LOWEST) & (counter.above > 0), positives.starts)
    return replace(found, tied=found.tied | blind)


def rank_in_lists(items: Ints, scores: Floats, positives: Positives, gains: Floats | None = None) -> RelevantRanks:
    """Find the relevant items in answers that hold only a few items each, such as a reranker's.

    Args:
        items: Shape (queries, k): which items each answer holds, in any order; -1 is no item.
        scores: Shape (queries, k): their scores.
        positives: The relevant items of each query, found or not.
        gains: How relevant each of them is, above 0; without it, 1.

    Raises:
        ModelError: If a score is NaN, which nothing would stand before.
    """
    if np.isnan(scores).any():
        raise ModelError("The scores of a ranking hold NaN.", advice="Check the reranker's weights and precision.")
    row = positives.queries()
    above, equal = np.full(len(row), NOT_FOUND), np.zeros(len(row), np.int64)
    own = np.full(len(row), -np.inf)
    ends = np.append(positives.starts, len(positives.items))
    for at, (query, item) in enumerate(zip(row, positives.items, strict=True)):
        found = np.flatnonzero(items[query] == item)
        if len(found):
            own[at] = scores[query, found[0]]
            wrong = (items[query] >= 0) & ~np.isin(items[query], positives.items[ends[query] : ends[query + 1]])
            above[at] = np.count_nonzero(wrong & (scores[query] > own[at]))
            equal[at] = np.count_nonzero(wrong & (scores[query] == own[at]))
    return _order(above, equal, own, positives.starts, gains)


def _order(above: Ints, equal: Ints, own: Floats, starts: Ints, gains: Floats | None) -> RelevantRanks:
    """Turn counts into ranks: among equal scores the less relevant stand first, the relevant last.

    Args:
        above: For each relevant item, how many wrong items have a higher score, or `NOT_FOUND`.
        equal: How many wrong items have the same score.
        own: Its score.
        starts: The first entry of each query.
        gains: How relevant it is.
    """
    weights = np.ones(len(above)) if gains is None else np.asarray(gains, np.float64)
    query = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(above))))
    order = np.lexsort((weights, -own, query))
    above, equal, weights, own = above[order], equal[order], weights[order], own[order]
    found = above != NOT_FOUND
    ranks = np.full(len(order), NOT_FOUND)
    # The relevant items before it in the query are those with a higher score, or with the same and a smaller gain.
    ranks[found] = (above + equal + np.arange(len(order)) - starts[query] + 1)[found]
    opens = np.ones(len(order), bool)
    opens[1:] = (own[1:] != own[:-1]) | (query[1:] != query[:-1])
    heads = np.flatnonzero(opens)
    mixed = (np.maximum.reduceat(weights, heads) > np.minimum.reduceat(weights, heads))[np.cumsum(opens) - 1]
    tied = np.zeros(len(starts), bool)
    np.logical_or.at(tied, query, found & ((equal > 0) | mixed))
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
