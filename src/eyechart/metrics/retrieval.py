"""Retrieval between images and captions: the rank of the best right answer, exactly, in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eyechart.metrics.search import (
    DENSE,
    Gallery,
    Positives,
    RankCounter,
    dots,
    factors,
    tiles,
)
from eyechart.metrics.vectors import Flags, Floats, Ints, Vectors, distinct_rows, in_range, kth_largest, zero_rows

BLOCK_BYTES = 64 * 1024 * 1024
"""The best items are looked for in blocks of scores of at most this size, whatever the size of the gallery."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """The rank of the best right answer of each query."""

    ranks: Ints
    """1 is best; wrong items with the same score stand before the right one."""
    tied: Flags
    """Whether a wrong item stands before the best right one although its score is not higher."""


def rank_positives(queries: Vectors, gallery: Vectors, positives: Positives) -> Ranks:
    """Rank the gallery by dot product for each query and find the best right answer.

    Hit rate at k is then the share of ranks up to k. That is what the CLIP literature calls recall@k: at least
    one right answer among the first k, however many right answers there are.

    The score matrix never exists as a whole, only one tile of it. Ranks are those of float64 scores, so they do not
    depend on tiles, threads or the linear algebra library: see `eyechart.metrics.search`.
    """
    searched = Gallery.of(queries, gallery)
    counter = _counter(searched, positives, searched.scores(positives.queries(), positives.items))
    for tile in tiles(searched, positives):
        counter.count(tile)
    return _ranks(counter)


def rank_both_ways(images: Vectors, texts: Vectors, owner: Ints, text: Ints | None = None) -> tuple[Ranks, Ranks]:
    """Rank images for each text and texts for each image in one pass: half the work of two.

    Args:
        images: One row per image.
        texts: One row per text.
        owner: For each pair of a text and an image that belong together, the image; none is without a text.
        text: The text of each pair; without it, each text belongs to one image and they stand in order.

    Returns:
        The ranks of the images (one per text) and of the texts (one per image).
    """
    text = np.arange(len(texts)) if text is None else text
    to_images = Positives.of_pairs(text, owner, len(texts))
    to_texts = Positives.of_pairs(owner, text, len(images))
    for_texts = Gallery.of(texts, images)
    own = for_texts.scores(text, owner)
    by_text = _counter(for_texts, to_images, own[np.argsort(text, kind="stable")])
    by_image = _counter(for_texts.turned, to_texts, own[np.argsort(owner, kind="stable")])
    for tile in tiles(for_texts, to_images):
        by_text.count(tile)
        by_image.count(tile.turned)
    return _ranks(by_text), _ranks(by_image)


def _counter(searched: Gallery, positives: Positives, own: Floats) -> RankCounter:
    """Count what reaches the best right answer of each query, given the scores of all right ones."""
    query = positives.queries()
    best = np.maximum.reduceat(own, positives.starts)
    at = np.empty(len(best), np.int64)
    # Of several right answers with the best score any will do.
    hits = np.flatnonzero(own == best[query])
    at[query[hits]] = hits
    return RankCounter(searched, np.arange(len(best)), best, positives.items[at])


def _ranks(counter: RankCounter) -> Ranks:
    return Ranks(counter.above + counter.equal + 1, counter.tied)


def top_items(queries: Vectors, gallery: Vectors, k: int) -> Ints:
    """Return the ``k`` best gallery items of each query, equal ones in the gallery's order.

    The order is that of float64 scores, as in `rank_positives`.
    """
    k = min(k, len(gallery))
    queries, gallery = in_range(queries), in_range(gallery)
    items = np.empty((len(queries), k), np.int64)
    first, number, copies = distinct_rows(gallery)
    members = np.argsort(number, kind="stable")
    distinct = gallery if len(first) == len(gallery) else gallery[first]
    step = max(1, BLOCK_BYTES // (28 * len(distinct)))
    for start in range(0, len(queries), step):
        rows = slice(start, min(start + step, len(queries)))
        query, row, score = _best_rows(queries[rows], distinct, min(k, len(distinct)))
        # Each distinct row stands for its first members: more than k of them are never shown.
        times = np.minimum(copies[row], k)
        offset = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
        item = members[np.repeat(np.cumsum(copies)[row] - copies[row], times) + offset]
        query, score = np.repeat(query, times), np.repeat(score, times)
        order = np.lexsort((item, -score, query))
        heads = np.searchsorted(query, np.arange(rows.stop - start))
        items[rows] = item[order[heads[:, None] + np.arange(k)]]
    return items


def _best_rows(queries: Vectors, gallery: Vectors, k: int) -> tuple[Ints, Ints, Floats]:
    """Return, query by query, all rows that may be among the ``k`` best, with their exact scores."""
    multiplied = factors(queries, gallery)
    scores = multiplied.queries @ multiplied.items.T
    near = _near(scores, k, multiplied.error)
    if np.count_nonzero(near) > len(queries) * k + scores.size // DENSE:
        near = _near(queries.astype(np.float64) @ gallery.astype(np.float64).T, k, multiplied.float64_error)
    blind = zero_rows(queries)
    if blind.any():
        near[blind] = np.arange(len(gallery)) < k
    query, row = np.nonzero(near)
    return query, row, dots(queries, gallery, query, row)


def _near(scores: Vectors | Floats, k: int, error: Floats) -> Flags:
    """Tell which scores may be among the ``k`` largest of their row, each being off by at most ``error``."""
    last = kth_largest(scores, k).astype(np.float64)
    least = np.nextafter((last - 2 * error).astype(scores.dtype), -np.inf, dtype=scores.dtype)
    return np.asarray(scores >= least[:, None], bool)
