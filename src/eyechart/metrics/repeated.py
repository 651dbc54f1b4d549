"""Recall between images and captions where captions repeat: what chance gives, and the most that any model can get.

The published convention counts every caption for itself: only the captions of its own image are right for an image.
Equal captions have equal scores, whatever the model, so those of other images stand before the right one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from math import comb

import numpy as np

from eyechart.metrics.vectors import Ints

Ways = Mapping[tuple[int, int], int]
"""How many sets of m texts occur s times together, by (m, s)."""
Own = tuple[tuple[int, int], ...]
"""The texts of an image: how often each occurs, and how often as a caption of this image."""


def best_image_recall(text: Ints, owner: Ints, k: int) -> float:
    """Return the largest image retrieval recall@k: of the images that share a text, only k can be among its first k.

    Args:
        text: The number of each caption's text; equal captions have one number.
        owner: The image of each caption.
        k: How many images are looked at.
    """
    pairs, times = np.unique(np.stack([text, owner]), axis=1, return_counts=True)
    order = np.lexsort((-times, pairs[0]))
    first = np.searchsorted(pairs[0], pairs[0])  # the pairs are sorted by text already
    return float(times[order][np.arange(len(order)) - first < k].sum() / len(text))


def best_text_recall(text: Ints, owner: Ints, asked: Ints, k: int) -> float:
    """Return the largest text retrieval recall@k: before an image's text stand its copies at other images.

    Args:
        text: The number of each caption's text.
        owner: The image of each caption.
        asked: The images that are queries.
        k: How many captions are looked at.
    """
    owns = _own_texts(text, owner)
    return float(np.mean([min(size - own for size, own in owns[image]) < k for image in asked.tolist()]))


def chance_text_recall(text: Ints, owner: Ints, asked: Ints, k: int) -> float:
    """Return the text retrieval recall@k of a model that orders the different texts at random.

    The arguments are those of `best_text_recall`. Without a repeated text this is `chance_hit_rate`.
    """
    sizes = Counter(np.bincount(text).tolist())
    ways = _ways(sizes, k - 1)
    owns = _own_texts(text, owner)
    kinds = Counter(owns[image] for image in asked.tolist())
    return float(sum(_chance(own, sizes.total(), ways, k) * times for own, times in kinds.items()) / len(asked))


def _own_texts(text: Ints, owner: Ints) -> dict[int, Own]:
    """Return the texts of each image."""
    sizes = np.bincount(text)
    pairs, times = np.unique(np.stack([owner, text]), axis=1, return_counts=True)
    found: dict[int, list[tuple[int, int]]] = {}
    for image, size, own in zip(pairs[0].tolist(), sizes[pairs[1]].tolist(), times.tolist(), strict=True):
        found.setdefault(image, []).append((size, own))
    return {image: tuple(sorted(own)) for image, own in found.items()}


def _ways(sizes: Mapping[int, int], most: int) -> Ways:
    """Count the sets of texts by how many they are and how often they occur together, up to ``most`` times."""
    ways = {(0, 0): 1}
    for size, number in sizes.items():
        grown: Counter[tuple[int, int]] = Counter()
        for (chosen, items), count in ways.items():
            for more in range(min(number, (most - items) // size) + 1):
                grown[chosen + more, items + more * size] += count * comb(number, more)
        ways = dict(grown)
    return ways


def _without(ways: Ways, size: int) -> Ways:
    """Return the counts of the sets that do not hold a certain text, which occurs ``size`` times."""
    found: dict[tuple[int, int], int] = {}
    for (chosen, items), count in sorted(ways.items()):
        found[chosen, items] = count - found.get((chosen - 1, items - size), 0)
    return found


def _chance(own: Own, texts: int, ways: Ways, k: int) -> Fraction:
    """Return the probability that the first of an image's texts ends among the first k places, in a random order.

    Before it stand m of the texts of other images, all sets of m being equally likely, and its own wrong copies.
    """
    for size, _ in own:
        ways = _without(ways, size)
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
