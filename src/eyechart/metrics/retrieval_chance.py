"""Chance levels and upper bounds of retrieval: a random order, and captions that occur several times."""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from fractions import Fraction
from math import comb

import numpy as np
from numpy.typing import ArrayLike

from eyechart.metrics.vectors import Ints


def chance_hit_rate(gallery: int, positives: int, k: int) -> float:
    """Probability that one of `positives` right items is among the top k of a randomly ordered gallery.

    1 - C(N - p, k) / C(N, k), summed as logarithms because the binomials overflow. This is the chance level of what
    CLIP papers call recall@k (a hit rate). A k beyond the gallery means the whole gallery.
    """
    if not 0 <= positives <= gallery or k < 0:
        raise ValueError(f"need 0 <= positives <= gallery and k >= 0, not {positives}, {gallery} and {k}")
    k = min(k, gallery)
    if positives + k > gallery:
        return 1.0
    few, many = sorted((positives, k))  # the ratio is symmetric in the two: walk along the smaller
    log_miss = math.fsum(math.log1p(-many / (gallery - i)) for i in range(few))
    return -math.expm1(log_miss)


def reciprocal_rank(gallery: int, found: int, _total: int, k: int) -> float:
    """Expected 1 / rank of the first relevant document, 0 beyond ``k``."""
    hits = [chance_hit_rate(gallery, found, r) for r in range(min(k, gallery) + 1)]
    return float(sum((hits[r] - hits[r - 1]) / r for r in range(1, len(hits))))


def average_precision(gallery: int, found: int, total: int, k: int) -> float:
    """Expected average precision of the first ``k``.

    A place holds a relevant document with probability found / gallery, and given that, each earlier place holds another
    one with probability (found - 1) / (gallery - 1).
    """
    ranks = np.arange(1, min(k, gallery) + 1)
    others = (ranks - 1) * (found - 1) / max(1, gallery - 1)
    return float((found / gallery * (1 + others) / ranks).sum() / total)


def ndcg(gallery: int, found: int, total: int, k: int) -> float:
    """Expected nDCG of the first ``k`` with binary relevance."""
    discounts = 1 / np.log2(1.0 + np.arange(1, k + 1))
    return float(found / gallery * discounts[: min(k, gallery)].sum() / discounts[: min(k, total)].sum())


CHANCE: dict[str, Callable[[int, int, int, int], float]] = {
    "ndcg": ndcg,
    "map": average_precision,
    "mrr": reciprocal_rank,
    "recall": lambda gallery, found, total, k: found / total * min(1.0, k / gallery),
    "precision": lambda gallery, found, _total, k: found / gallery * min(k, gallery) / k,
    "hit_rate": lambda gallery, found, _total, k: chance_hit_rate(gallery, found, k),
}
"""Expected value of each metric, as functions of the gallery's size, the relevant documents in it, the relevant
documents in total, and k."""


def mean_chance(name: str, sizes: ArrayLike, k: int) -> float:
    """Average the chance level of a metric over queries, given a row of the three sizes for each of them."""
    kinds, counts = np.unique(np.asarray(sizes), axis=0, return_counts=True)
    levels = [CHANCE[name](gallery, found, total, k) for gallery, found, total in kinds.tolist()]
    return float(np.average(levels, weights=counts))


# Chance level and upper bound of recall between images and captions when captions repeat.
#
# By the published convention every caption counts separately: only the captions of its own image are correct for an
# image. Equal captions have equal scores under any model, so copies at other images rank before the correct one.

Ways = Mapping[tuple[int, int], int]
"""(m, s) -> number of sets of m texts that occur s times in total."""
Own = tuple[tuple[int, int], ...]
"""Texts of an image: how often each occurs overall, and how often as a caption of this image."""


def best_image_recall(text: Ints, owner: Ints, k: int) -> float:
    """Return the largest possible image retrieval recall@k: of the images that share a text, only k fit into its top k.

    ``text`` and ``owner`` are each caption's text id, which equal captions share, and its image.
    """
    pairs, times = np.unique(np.stack([text, owner]), axis=1, return_counts=True)
    order = np.lexsort((-times, pairs[0]))
    first = np.searchsorted(pairs[0], pairs[0])  # the pairs are sorted by text already
    return float(times[order][np.arange(len(order)) - first < k].sum() / len(text))


def best_text_recall(text: Ints, owner: Ints, asked: Ints, k: int) -> float:
    """Return the largest possible text retrieval recall@k: copies at other images rank before an image's text.

    ``asked`` are the query images; other arguments as in `best_image_recall`.
    """
    owns = _own_texts(text, owner)
    return float(np.mean([min(size - own for size, own in owns[image]) < k for image in asked.tolist()]))


def chance_text_recall(text: Ints, owner: Ints, asked: Ints, k: int) -> float:
    """Return the text retrieval recall@k of a model that orders the distinct texts at random.

    The arguments are those of `best_text_recall`. Without repeated texts this is `chance_hit_rate`.
    """
    sizes = Counter(np.bincount(text).tolist())
    ways = {(0, 0): 1}  # of at most k - 1 occurrences
    for size, number in sizes.items():
        grown: Counter[tuple[int, int]] = Counter()
        for (chosen, items), count in ways.items():
            for more in range(min(number, (k - 1 - items) // size) + 1):
                grown[chosen + more, items + more * size] += count * comb(number, more)
        ways = dict(grown)
    owns = _own_texts(text, owner)
    kinds = Counter(owns[image] for image in asked.tolist())
    return float(sum(_chance(own, sizes.total(), ways, k) * times for own, times in kinds.items()) / len(asked))


def _own_texts(text: Ints, owner: Ints) -> dict[int, Own]:
    sizes = np.bincount(text)
    pairs, times = np.unique(np.stack([owner, text]), axis=1, return_counts=True)
    found: dict[int, list[tuple[int, int]]] = {}
    for image, size, own in zip(pairs[0].tolist(), sizes[pairs[1]].tolist(), times.tolist(), strict=True):
        found.setdefault(image, []).append((size, own))
    return {image: tuple(sorted(own)) for image, own in found.items()}


def _chance(own: Own, texts: int, ways: Ways, k: int) -> Fraction:
    """Return the probability that the first of an image's texts ends among the first k places, in a random order.

    It is preceded by m texts of other images, all sets of m being equally likely, and by its own wrong copies.
    """
    for size, _ in own:  # the sets that exclude a text that occurs this many times
        left: dict[tuple[int, int], int] = {}
        for (chosen, items), count in sorted(ways.items()):
            left[chosen, items] = count - left.get((chosen - 1, items - size), 0)
        ways = left
    others = texts - len(own)
    room = [k - 1 - (size - right) for size, right in own]
    sums: Counter[int] = Counter()
    for (chosen, items), count in ways.items():
        sums[chosen] += count * sum(items <= most for most in room)
    return sum(
        (
            Fraction(count * comb(texts - chosen - 1, len(own) - 1), comb(others, chosen) * len(own))
            for chosen, count in sums.items()
            if chosen <= others
        ),
        Fraction(0),
    ) / comb(texts, len(own))
