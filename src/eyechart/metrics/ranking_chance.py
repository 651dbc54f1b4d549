"""What a random order of the documents would get, for each metric of `eyechart.metrics.ranking`."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np


def chance_hit_rate(gallery: int, positives: int, k: int) -> float:
    """Probability that one of `positives` right items is among the top k of a randomly ordered gallery.

    1 - C(N - p, k) / C(N, k), summed as logarithms because the binomials overflow. This is the chance level
    of what CLIP papers call recall@k (a hit rate). A k beyond the gallery means the whole gallery.
    """
    if not 0 <= positives <= gallery or k < 0:
        raise ValueError(f"need 0 <= positives <= gallery and k >= 0, not {positives}, {gallery} and {k}")
    k = min(k, gallery)
    if positives + k > gallery:
        return 1.0
    few, many = sorted((positives, k))  # the ratio is symmetric in the two: walk along the smaller
    log_miss = math.fsum(math.log1p(-many / (gallery - i)) for i in range(few))
    return -math.expm1(log_miss)


def hit_rate(gallery: int, found: int, total: int, k: int) -> float:  # noqa: ARG001 - one signature for all
    """Probability that one of the relevant documents is among the first ``k``."""
    return chance_hit_rate(gallery, found, k)


def recall(gallery: int, found: int, total: int, k: int) -> float:
    """Expected share of the relevant documents among the first ``k``."""
    return found / total * min(1.0, k / gallery)


def precision(gallery: int, found: int, total: int, k: int) -> float:  # noqa: ARG001
    """Expected share of the first ``k`` places that hold a relevant document."""
    return found / gallery * min(k, gallery) / k


def reciprocal_rank(gallery: int, found: int, total: int, k: int) -> float:  # noqa: ARG001
    """Expected 1 / rank of the first relevant document, 0 beyond ``k``."""
    hits = [chance_hit_rate(gallery, found, r) for r in range(min(k, gallery) + 1)]
    return float(sum((hits[r] - hits[r - 1]) / r for r in range(1, len(hits))))


def average_precision(gallery: int, found: int, total: int, k: int) -> float:
    """Expected average precision of the first ``k``.

    A place holds a relevant document with probability found / gallery, and then each place before it holds another
    one with probability (found - 1) / (gallery - 1).
    """
    ranks = np.arange(1, min(k, gallery) + 1)
    others = (ranks - 1) * (found - 1) / max(1, gallery - 1)
    return float((found / gallery * (1 + others) / ranks).sum() / total)


def ndcg(gallery: int, found: int, total: int, k: int) -> float:
    """Expected nDCG of the first ``k``, all relevant documents being equally relevant."""
    discounts = 1 / np.log2(1.0 + np.arange(1, k + 1))
    return float(found / gallery * discounts[: min(k, gallery)].sum() / discounts[: min(k, total)].sum())


CHANCE: dict[str, Callable[[int, int, int, int], float]] = {
    "ndcg": ndcg,
    "map": average_precision,
    "mrr": reciprocal_rank,
    "recall": recall,
    "precision": precision,
    "hit_rate": hit_rate,
}
"""By metric: a function of the gallery's size, how many relevant documents are in it, how many there are, and k."""
