import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from eyechart.metrics.retrieval import Positives, hit_rate, rank_positives, top_items
from eyechart.metrics.vectors import distinct_rows, unit


def dense_ranks(queries, gallery, positives_of):
    """Rank by sorting the whole matrix, wrong items first among equals: slow, and plainly right."""
    ranks = []
    for query, right in zip(queries @ gallery.T, positives_of, strict=True):
        wrong = np.array([i not in right for i in range(len(gallery))])
        order = np.lexsort((~wrong, -query))
        ranks.append(1 + min(int(np.flatnonzero(order == i)[0]) for i in right))
    return ranks


def small_vectors(rng, n):
    """Draw from few integer vectors, so that exact ties and duplicates are common."""
    return rng.integers(-1, 2, (n, 3)).astype(np.float32)


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 4))
def test_ranks_agree_with_sorting_everything(seed, n, most):
    rng = np.random.default_rng(seed)
    owner = np.repeat(np.arange(n), rng.integers(1, most + 1, n))
    images, texts = small_vectors(rng, n), small_vectors(rng, len(owner))

    to_images = rank_positives(texts, images, Positives.one_each(owner)).ranks
    to_texts = rank_positives(images, texts, Positives.inverse(owner, n)).ranks

    assert to_images.tolist() == dense_ranks(texts, images, [{i} for i in owner])
    assert to_texts.tolist() == dense_ranks(images, texts, [set(np.flatnonzero(owner == i)) for i in range(n)])


def test_captions_need_not_stand_in_the_order_of_the_pictures():
    owner = np.array([2, 0, 1, 0])
    positives = Positives.inverse(owner, 3)

    assert positives.items.tolist() == [1, 3, 2, 0]
    assert positives.counts().tolist() == [2, 1, 1]


def test_blocks_do_not_change_the_ranks(monkeypatch):
    rng = np.random.default_rng(0)
    owner = np.repeat(np.arange(40), 3)
    images = unit(rng.standard_normal((40, 16)).astype(np.float32))
    texts = unit(rng.standard_normal((120, 16)).astype(np.float32))
    whole = rank_positives(images, texts, Positives.inverse(owner, 40))

    monkeypatch.setattr("eyechart.metrics.retrieval.BLOCK_BYTES", 3000)
    blocked = rank_positives(images, texts, Positives.inverse(owner, 40))

    np.testing.assert_array_equal(whole.ranks, blocked.ranks)


def test_a_tie_is_reported():
    same = np.ones((2, 4), np.float32)

    ranks = rank_positives(same, same, Positives.one_each(np.arange(2)))

    assert ranks.ranks.tolist() == [2, 2]
    assert ranks.tied.all()
    assert hit_rate(ranks.ranks, 1) == 0


def test_the_best_items_come_in_order_of_score():
    gallery = np.eye(4, dtype=np.float32)
    query = np.array([[0.1, 0.9, 0.3, 0.3]], np.float32)

    items, scores = top_items(query, gallery, 3)

    assert items.tolist() == [[1, 2, 3]]
    np.testing.assert_allclose(scores, [[0.9, 0.3, 0.3]])


def test_equal_rows_share_one_number_in_order_of_appearance():
    first, number, count = distinct_rows(np.array([[2, 2], [1, 1], [2, 2]], np.float32))

    assert first.tolist() == [0, 1]
    assert number.tolist() == [0, 1, 0]
    assert count.tolist() == [2, 1]
