"""Retrieval: exact ranks between images and captions, and metrics of ranked lists (recall, MRR, MAP, nDCG)."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from eyechart.errors import ModelError
from eyechart.metrics.maxsim import LOWEST
from eyechart.metrics.search import (
    DENSE,
    Gallery,
    Positives,
    RankCounter,
    dots,
    factors,
    float64_product,
    multiply,
    tiles,
)
from eyechart.metrics.vectors import (
    AnyVectors,
    Flags,
    Floats,
    Ints,
    MultiVectors,
    Vectors,
    distinct_rows,
    in_range,
    kth_largest,
    zero_rows,
)

BLOCK_BYTES = 64 * 1024 * 1024
"""Upper bound on the block of scores in which top items are searched, independent of gallery size."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """Rank of the best correct item of each query."""

    ranks: Ints
    """1 is best; wrong items with the same score rank before the correct one."""
    tied: Flags
    """Whether a wrong item without a higher score ranks before the best correct one."""
    top: Floats
    """Score of the item at rank 1, of float32 precision if it is wrong."""
    own: Floats
    """Score of the best correct item."""


def rank_positives(queries: AnyVectors, gallery: AnyVectors, positives: Positives) -> Ranks:
    """Rank the gallery by dot product, or MaxSim, for each query and find the best correct item.

    The hit rate at k is then the share of ranks up to k. The CLIP literature calls it recall@k: at least one correct
    item among the first k, however many there are.

    The score matrix is never materialised, only one tile of it. Ranks are those of float64 scores, so they do not
    depend on tiles, threads or the linear algebra library: see `eyechart.metrics.search`.
    """
    searched = Gallery.of(queries, gallery)
    counter = _counter(searched, positives, searched.scores(positives.queries(), positives.items))
    for tile in tiles(searched, positives):
        counter.count(tile)
    return _ranks(counter)


def rank_both_ways(images: AnyVectors, texts: AnyVectors, owner: Ints, text: Ints | None = None) -> tuple[Ranks, Ranks]:
    """Rank images for each text and texts for each image in one pass, which halves the work.

    MaxSim is not symmetric: with several vectors per item, each direction sums over the vectors of its own queries.

    ``owner`` and ``text`` are the images and texts of the matching pairs (every image occurs); by default text i
    belongs to pair i. Return the ranks of the images (one per text) and of the texts (one per image).
    """
    text = np.arange(len(texts)) if text is None else text
    to_images = Positives.of_pairs(text, owner, len(texts))
    to_texts = Positives.of_pairs(owner, text, len(images))
    if isinstance(texts, MultiVectors):
        return rank_positives(texts, images, to_images), rank_positives(images, texts, to_texts)
    for_texts = Gallery.of(texts, images)
    own = for_texts.scores(text, owner)
    by_text = _counter(for_texts, to_images, own[np.argsort(text, kind="stable")])
    by_image = _counter(for_texts.turned, to_texts, own[np.argsort(owner, kind="stable")])
    for tile in tiles(for_texts, to_images):
        by_text.count(tile)
        by_image.count(tile.turned)
    return _ranks(by_text), _ranks(by_image)


def _counter(searched: Gallery, positives: Positives, own: Floats) -> RankCounter:
    """Count the items that reach the best correct item of each query, given the scores of all correct ones."""
    query = positives.queries()
    best = np.maximum.reduceat(own, positives.starts)
    at = np.empty(len(best), np.int64)
    # Any of several correct items with the best score will do.
    hits = np.flatnonzero(own == best[query])
    at[query[hits]] = hits
    return RankCounter(searched, np.arange(len(best)), best, positives.items[at])


def _ranks(counter: RankCounter) -> Ranks:
    ranks = counter.above + counter.equal + 1
    top = np.where(ranks == 1, counter.own, np.maximum(counter.own, counter.highest))
    return Ranks(ranks, counter.tied, top, counter.own)


def rounded_scores(scores: Floats) -> list[float | None]:
    """Round scores to six significant digits for the records; None for items without a score."""
    return [float(f"{score:.6g}") if LOWEST < score < np.inf else None for score in scores.tolist()]


def top_items(queries: AnyVectors, gallery: AnyVectors, k: int) -> Ints:
    """Return the ``k`` best gallery items of each query, ties in gallery order.

    The order is that of float64 scores, as in `rank_positives`.
    """
    k = min(k, len(gallery))
    queries, gallery = in_range(queries), in_range(gallery)
    items = np.empty((len(queries), k), np.int64)
    if isinstance(gallery, MultiVectors):  # too large to copy; equal items have equal exact scores
        first = number = np.arange(len(gallery))
        copies = np.ones(len(gallery), np.int64)
    else:
        first, number, copies = distinct_rows(gallery)
    members = np.argsort(number, kind="stable")
    distinct = gallery if len(first) == len(gallery) else gallery[first]
    step = max(1, BLOCK_BYTES // (28 * len(distinct)))
    for start in range(0, len(queries), step):
        rows = slice(start, min(start + step, len(queries)))
        query, row, score = _best_rows(queries[rows], distinct, min(k, len(distinct)))
        # Each distinct row represents its first members: more than k of them are never returned.
        times = np.minimum(copies[row], k)
        offset = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
        item = members[np.repeat(np.cumsum(copies)[row] - copies[row], times) + offset]
        query, score = np.repeat(query, times), np.repeat(score, times)
        order = np.lexsort((item, -score, query))
        heads = np.searchsorted(query, np.arange(rows.stop - start))
        items[rows] = item[order[heads[:, None] + np.arange(k)]]
    return items


def _best_rows(queries: AnyVectors, gallery: AnyVectors, k: int) -> tuple[Ints, Ints, Floats]:
    """Return, query by query, all rows that may be among the ``k`` best, with their exact scores."""
    multiplied = factors(queries, gallery)
    scores = multiply(multiplied.queries, multiplied.items)
    near = _near(scores, k, multiplied.error)
    if np.count_nonzero(near) > len(queries) * k + scores.size // DENSE:
        near = _near(float64_product(queries, gallery), k, multiplied.float64_error)
    blind = zero_rows(queries)
    if blind.any():
        near[blind] = np.arange(len(gallery)) < k
    query, row = np.nonzero(near)
    return query, row, dots(queries, gallery, query, row)


def _near(scores: Vectors | Floats, k: int, error: Floats) -> Flags:
    """Whether each score may be among the ``k`` largest of its row, given a maximal ``error``."""
    last = kth_largest(scores, k).astype(np.float64)
    least = np.nextafter((last - 2 * error).astype(scores.dtype), -np.inf, dtype=scores.dtype)
    return np.asarray(scores >= least[:, None], bool)


# Ranked retrieval with any number of relevant items, graded or binary: recall, precision, MRR, MAP, nDCG, hit rate.
#
# Everything is computed from the ranks of the relevant items, so a ranking is never stored. Each metric returns one
# value per query; the reported figure is their mean. The conventions are trec_eval's (raw gains, MAP and recall over
# all relevant items, precision over k), except that ties never help: for equal scores, trec_eval puts the greater
# document id first, and this module the less relevant document.

NOT_FOUND = np.iinfo(np.int64).max
"""Rank of a relevant item that is missing from the result list."""


@dataclass(frozen=True, slots=True)
class RelevantRanks:
    """Ranks of the relevant items of each query, query after query, best rank first."""

    ranks: Ints
    """1 is best; `NOT_FOUND` if the result list was cut before the item."""
    gains: Floats
    """Relevance of each item; 1 throughout for binary relevance."""
    starts: Ints
    """First entry of each query; every query has a relevant item."""
    tied: Flags
    """For each query, whether a less relevant item has the same score as one of its relevant items."""

    @classmethod
    def from_rows(cls, query: Ints, ranks: Ints, gains: Floats, tied: Flags) -> Self:
        """Build from one row per relevant item, in any order; ``tied`` has one entry per query."""
        order = np.lexsort((ranks, query))
        return cls(ranks[order], gains[order], np.searchsorted(query[order], np.arange(len(tied))), tied)

    @property
    def counts(self) -> Ints:
        """Number of relevant items of each query."""
        return np.diff(np.append(self.starts, len(self.ranks)))

    @property
    def best(self) -> Ints:
        """Rank of each query's first relevant item."""
        return self.ranks[self.starts]


def rank_relevant(
    queries: AnyVectors, gallery: AnyVectors, positives: Positives, gains: Floats | None = None
) -> RelevantRanks:
    """Rank the whole gallery by dot product, or MaxSim, for each query and find all its relevant items.

    ``gains`` are the relevances of the positives, above 0; default 1. The score matrix is never materialised, and ranks
    are those of float64 scores: see `eyechart.metrics.search`.
    """
    searched, query = Gallery.of(queries, gallery), positives.queries()
    own = searched.scores(query, positives.items)
    counter = RankCounter(searched, query, own, positives.items)
    for tile in tiles(searched, positives):
        counter.count(tile)
    found = _order(counter.above, counter.equal, own, positives, gains)
    # A zero vector ranks after everything wrong, which is a tie as well.
    blind = np.logical_or.reduceat((own == LOWEST) & (counter.above > 0), positives.starts)
    return replace(found, tied=found.tied | blind)


def rank_in_lists(items: Ints, scores: Floats, positives: Positives, gains: Floats | None = None) -> RelevantRanks:
    """Find the relevant items in short result lists, such as a reranker's; arguments as in `rank_relevant`.

    ``items`` and their ``scores`` have the shape (queries, k), in any order; -1 is padding. NaN, which would lose no
    comparison, is a `ModelError`.
    """
    if np.isnan(scores).any():
        raise ModelError("The scores of a ranking contain NaN.", advice="Check the reranker's weights and precision.")
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
    return _order(above, equal, own, positives, gains)


def _order(above: Ints, equal: Ints, own: Floats, positives: Positives, gains: Floats | None) -> RelevantRanks:
    """Turn counts into ranks: among equal scores the less relevant come first.

    For each relevant item: the number of wrong items with a higher score (or `NOT_FOUND`) and with its own score.
    """
    weights = np.ones(len(above)) if gains is None else np.asarray(gains, np.float64)
    query, starts = positives.queries(), positives.starts
    order = np.lexsort((weights, -own, query))
    above, equal, weights, own = above[order], equal[order], weights[order], own[order]
    found = above != NOT_FOUND
    ranks = np.full(len(order), NOT_FOUND)
    # Within a query, a relevant item follows those with a higher score, or with the same score and a smaller gain.
    ranks[found] = (above + equal + np.arange(len(order)) - starts[query] + 1)[found]
    opens = np.ones(len(order), bool)
    opens[1:] = (own[1:] != own[:-1]) | (query[1:] != query[:-1])
    heads = np.flatnonzero(opens)
    mixed = (np.maximum.reduceat(weights, heads) > np.minimum.reduceat(weights, heads))[np.cumsum(opens) - 1]
    tied = np.zeros(len(starts), bool)
    np.logical_or.at(tied, query, found & ((equal > 0) | mixed))
    return RelevantRanks(ranks, weights, starts, tied)


def average_precision(relevant: RelevantRanks, k: int) -> Floats:
    """Mean precision at the positions of the relevant items; those beyond ``k`` count 0 (trec_eval's map_cut_k)."""
    place = np.arange(len(relevant.ranks)) - np.repeat(relevant.starts, relevant.counts) + 1
    return _sum(relevant, np.where(relevant.ranks <= k, place / relevant.ranks, 0.0)) / relevant.counts


def ndcg(relevant: RelevantRanks, k: int) -> Floats:
    """Discounted gain of the first ``k`` over that of the ideal order (trec_eval's ndcg_cut_k).

    The gain is the relevance itself (not 2**relevance - 1), the discount 1 / log2(rank + 1).
    """
    query = np.repeat(np.arange(len(relevant.starts)), relevant.counts)
    ideal_gains = relevant.gains[np.lexsort((-relevant.gains, query))]
    place = np.arange(len(query)) - np.repeat(relevant.starts, relevant.counts) + 1
    found, ideal = (
        _sum(relevant, np.where(ranks <= k, gains / np.log2(1.0 + ranks), 0.0))
        for gains, ranks in ((relevant.gains, relevant.ranks), (ideal_gains, place))
    )
    return found / ideal


def _sum(relevant: RelevantRanks, values: NDArray[np.generic]) -> Floats:
    return np.add.reduceat(values.astype(np.float64), relevant.starts)


METRICS: dict[str, Callable[[RelevantRanks, int], Floats]] = {
    "ndcg": ndcg,
    "map": average_precision,
    # 1 / rank of the first relevant item, 0 beyond k (trec_eval's recip_rank of a list cut at k).
    "mrr": lambda relevant, k: np.where(relevant.best <= k, 1.0 / relevant.best, 0.0),
    # Share of a query's relevant items that are among the first k (trec_eval's recall_k).
    "recall": lambda relevant, k: _sum(relevant, relevant.ranks <= k) / relevant.counts,
    # Share of the first k places that hold a relevant item (trec_eval's P_k, always divided by k).
    "precision": lambda relevant, k: _sum(relevant, relevant.ranks <= k) / k,
    # 1 if any relevant item is among the first k, else 0 (trec_eval's success_k; CLIP's "recall@k").
    "hit_rate": lambda relevant, k: (relevant.best <= k).astype(np.float64),
}
"""Keyed by MTEB's names: ``ndcg_at_10`` is ``METRICS["ndcg"](relevant, 10).mean()``."""
