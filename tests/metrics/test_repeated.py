"""Recall where captions repeat: chance and the best reachable value against models that are tried out."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eyechart.metrics.retrieval import rank_both_ways
from eyechart.metrics.retrieval_chance import best_image_recall, best_text_recall, chance_hit_rate, chance_text_recall

TEN_EACH = np.repeat(np.arange(4), 10)
"""Forty images with one caption each; ten of them share one."""


def orthogonal(numbers, n):
    """Give each number a vector of its own: what an encoder does that knows every text, and nothing else."""
    return np.eye(n, dtype=np.float32)[numbers]


def random_recalls(text, owner, k, rounds, seed=0):
    """Return both recalls for models with random scores, the same score for the same text."""
    rng = np.random.default_rng(seed)
    images, texts = int(owner.max()) + 1, int(text.max()) + 1
    found = []
    for _ in range(rounds):
        scores = rng.random((images, texts)).astype(np.float32) + 1
        to_image, to_text = rank_both_ways(scores, orthogonal(text, texts), owner)
        found.append((np.mean(to_image.ranks <= k), np.mean(to_text.ranks <= k)))
    return np.array(found)


CASES = {
    "ten images per caption": (TEN_EACH, np.arange(40)),
    "few repeats": (np.array([0, 1, 2, 3, 4, 5, 6, 1, 7, 5]), np.repeat(np.arange(5), 2)),
    "a caption twice at one image": (np.array([0, 0, 1, 2, 2, 3, 3, 3]), np.array([0, 0, 1, 2, 3, 4, 5, 5])),
    "uneven": (np.array([0, 1, 1, 1, 2, 3, 3, 4, 0, 5]), np.array([0, 0, 1, 2, 2, 3, 4, 4, 5, 6])),
}


@pytest.mark.parametrize("k", [1, 2, 5, 12])
@pytest.mark.parametrize("case", CASES)
def test_chance_is_what_random_models_get(case, k):
    text, owner = CASES[case]

    found = random_recalls(text, owner, k, 400)[:, 1]

    chance = chance_text_recall(text, owner, np.unique(owner), k)
    assert chance == pytest.approx(found.mean(), abs=4.5 * found.std() / len(found) ** 0.5 + 1e-12)


@pytest.mark.parametrize("case", CASES)
def test_repeated_texts_leave_the_chance_of_finding_the_image_as_it_is(case):
    text, owner = CASES[case]

    found = random_recalls(text, owner, 3, 400)[:, 0]

    chance = chance_hit_rate(int(owner.max()) + 1, 1, 3)
    assert chance == pytest.approx(found.mean(), abs=4.5 * found.std() / len(found) ** 0.5)


@given(st.integers(1, 40), st.integers(1, 5), st.integers(1, 60))
def test_without_repeats_chance_is_the_usual_one(images, each, k):
    owner = np.repeat(np.arange(images), each)

    chance = chance_text_recall(np.arange(len(owner)), owner, np.arange(images), k)

    assert chance == pytest.approx(chance_hit_rate(len(owner), each, k), rel=1e-12)


def test_ten_images_per_caption_cannot_be_told_apart_by_anyone():
    text, owner, asked = TEN_EACH, np.arange(40), np.arange(40)

    assert [best_text_recall(text, owner, asked, k) for k in (1, 5, 9, 10)] == [0, 0, 0, 1]
    assert [best_image_recall(text, owner, k) for k in (1, 5, 10)] == [0.1, 0.5, 1]
    assert chance_text_recall(text, owner, asked, 9) == 0
    assert chance_text_recall(text, owner, asked, 10) == 0.25


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 3))
def test_the_best_is_what_the_best_of_all_models_gets(seed, texts, k):
    rng = np.random.default_rng(seed)
    images = int(rng.integers(1, 5))
    owner = rng.permutation(np.concatenate([np.arange(images), rng.integers(0, images, 3)]))
    text = rng.integers(0, texts, len(owner))

    # A text may put the images into any order, and an image the texts: try them all, each text and image alone.
    by_text = [
        max(
            sum(order.index(image) < k for image in owner[text == number].tolist())
            for order in permutations(range(images))
        )
        for number in np.unique(text)
    ]
    orders = list(permutations(range(texts)))
    by_image = [max(_is_hit(image, order, text, owner, k) for order in orders) for image in range(images)]

    assert best_image_recall(text, owner, k) == pytest.approx(sum(by_text) / len(owner))
    assert best_text_recall(text, owner, np.arange(images), k) == pytest.approx(np.mean(by_image))


def _is_hit(image, order, text, owner, k):
    """Tell whether an image finds one of its captions among the first k, the wrong ones first among equals."""
    scores = np.array([-order.index(number) for number in text])
    own = scores[owner == image].max()
    return bool(1 + np.sum((scores >= own) & (owner != image)) <= k)


def test_only_images_that_are_asked_count():
    text, owner = np.array([0, 0, 1]), np.array([0, 1, 2])

    assert best_text_recall(text, owner, np.array([2]), 1) == 1
    assert best_text_recall(text, owner, np.array([0, 2]), 1) == 0.5
    assert chance_text_recall(text, owner, np.array([2]), 1) == 0.5
