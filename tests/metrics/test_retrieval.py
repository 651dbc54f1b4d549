import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eyechart.metrics.retrieval import rank_both_ways, rank_positives, rank_relevant, top_items
from eyechart.metrics.search import Positives, dots
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
    """Draw from few integer vectors, so that exact ties and duplicates are common; none is zero."""
    return np.hstack([rng.integers(-1, 2, (n, 3)), np.ones((n, 1))]).astype(np.float32)


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 4))
def test_ranks_agree_with_sorting_everything(seed, n, most):
    rng = np.random.default_rng(seed)
    owner = np.repeat(np.arange(n), rng.integers(1, most + 1, n))
    images, texts = small_vectors(rng, n), small_vectors(rng, len(owner))

    to_images = rank_positives(texts, images, Positives.one_each(owner)).ranks
    to_texts = rank_positives(images, texts, Positives.of_pairs(owner, np.arange(len(owner)), n)).ranks

    assert to_images.tolist() == dense_ranks(texts, images, [{i} for i in owner])
    assert to_texts.tolist() == dense_ranks(images, texts, [set(np.flatnonzero(owner == i)) for i in range(n)])


def test_captions_need_not_stand_in_the_order_of_the_images():
    owner = np.array([2, 0, 1, 0])
    positives = Positives.of_pairs(owner, np.arange(4), 3)

    assert positives.items.tolist() == [1, 3, 2, 0]
    assert positives.counts().tolist() == [2, 1, 1]


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 4))
def test_one_pass_gives_both_directions(seed, n, most):
    rng = np.random.default_rng(seed)
    owner = rng.permutation(np.repeat(np.arange(n), rng.integers(1, most + 1, n)))
    images, texts = small_vectors(rng, n), small_vectors(rng, len(owner))

    to_images, to_texts = rank_both_ways(images, texts, owner)

    one_way = rank_positives(texts, images, Positives.one_each(owner))
    other_way = rank_positives(images, texts, Positives.of_pairs(owner, np.arange(len(owner)), n))
    assert to_images.ranks.tolist() == one_way.ranks.tolist()
    assert to_texts.ranks.tolist() == other_way.ranks.tolist()
    assert to_images.tied.tolist() == one_way.tied.tolist()
    assert to_texts.tied.tolist() == other_way.tied.tolist()


def float64_ranks(images, texts, owner):
    """Rank by a whole float64 matrix, in which two equal rows have equal scores."""
    scores = (texts[:, None, :].astype(np.float64) * images[None].astype(np.float64)).sum(axis=2)
    right = owner[:, None] == np.arange(len(images))
    to_images = 1 + ((scores >= scores[right][:, None]) & ~right).sum(axis=1)
    best = np.where(right, scores, -np.inf).max(axis=0)
    return to_images.tolist(), (1 + ((scores >= best) & ~right).sum(axis=0)).tolist()


@pytest.mark.parametrize("tile", [(512, 8192), (7, 11)])
@pytest.mark.parametrize("spread", [1.0, 1e-3, 1e-6, 0.0])
@pytest.mark.parametrize("sparse", [1, 10**9])
def test_ranks_are_those_of_float64_however_near_the_vectors_are(monkeypatch, tile, spread, sparse):
    rng = np.random.default_rng(0)
    owner = rng.permutation(np.repeat(np.arange(30), 3))
    images, texts = (1 + spread * rng.standard_normal((n, 64)) for n in (30, 90))
    images, texts = unit(images.astype(np.float32)), unit(texts.astype(np.float32))
    # Some images exist twice: their copies tie exactly.
    images[3], images[17] = images[4], images[4]
    monkeypatch.setattr("eyechart.metrics.search.TILE", tile)
    monkeypatch.setattr("eyechart.metrics.search.SPARSE", sparse)  # whether what reaches a target is few or many

    to_images, to_texts = rank_both_ways(images, texts, owner)

    assert (to_images.ranks.tolist(), to_texts.ranks.tolist()) == float64_ranks(images, texts, owner)


@pytest.mark.parametrize("short", [1e-12, 1e-20, 1e-24, 1e-30])
def test_a_very_short_vector_beside_long_ones_is_ranked_as_exactly(short):
    rng = np.random.default_rng(0)
    owner = np.arange(300)
    images, texts = ((1 + 0.2 * rng.standard_normal((300, 64))).astype(np.float32) for _ in range(2))
    images[:150] = images[150:] * (1 + 1e-7 * rng.standard_normal((150, 64))).astype(np.float32)
    texts[::2] *= np.float32(short)

    to_images, _ = rank_both_ways(images, texts, owner)

    assert to_images.ranks.tolist() == float64_ranks(images, texts, owner)[0]


@pytest.mark.parametrize("dense", [1, 10**9])
def test_near_pairs_are_decided_alike_one_by_one_and_together(monkeypatch, dense):
    rng = np.random.default_rng(1)
    owner = np.arange(50)
    images, texts = (unit((1 + 1e-5 * rng.standard_normal((50, 33))).astype(np.float32)) for _ in range(2))
    monkeypatch.setattr("eyechart.metrics.search.DENSE", dense)

    to_images, to_texts = rank_both_ways(images, texts, owner)

    assert (to_images.ranks.tolist(), to_texts.ranks.tolist()) == float64_ranks(images, texts, owner)


@pytest.mark.parametrize("spread", [1.0, 1e-3, 1e-5])
def test_few_pairs_of_a_collapsed_model_are_computed_again(monkeypatch, spread):
    again = []

    def spied(queries, gallery, rows, columns):
        again.append(len(rows))
        return dots(queries, gallery, rows, columns)

    monkeypatch.setattr("eyechart.metrics.search.dots", spied)
    monkeypatch.setattr("eyechart.metrics.search.DENSE", 1)
    queries, gallery = (nearly_alike(n, spread, n, dim=256) for n in (200, 900))
    positives = Positives.one_each(np.arange(200))

    found = rank_positives(queries, gallery, positives)

    exact = (queries[:, None, :].astype(np.float64) * gallery[None].astype(np.float64)).sum(axis=2)
    own = exact[np.arange(200), np.arange(200)]
    assert found.ranks.tolist() == (exact >= own[:, None]).sum(axis=1).tolist()
    assert sum(again) < 0.02 * exact.size


def test_the_score_matrix_never_exists_as_a_whole():
    rng = np.random.default_rng(0)
    images, texts = (unit(rng.standard_normal((n, 8)).astype(np.float32)) for n in (3000, 9000))
    owner = np.repeat(np.arange(3000), 3)

    tracemalloc.start()
    rank_both_ways(images, texts, owner)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 3000 * 9000 * 4 / 2


def test_a_tie_is_reported():
    same = np.ones((2, 4), np.float32)

    ranks = rank_positives(same, same, Positives.one_each(np.arange(2)))

    assert ranks.ranks.tolist() == [2, 2]
    assert ranks.tied.all()
    assert (ranks.ranks > 1).all()


def test_the_best_items_come_in_order_of_score():
    gallery = np.eye(4, dtype=np.float32)
    query = np.array([[0.1, 0.9, 0.3, 0.3]], np.float32)

    assert top_items(query, gallery, 3).tolist() == [[1, 2, 3]]


def nearly_alike(n, spread, seed, dim=64):
    """Draw unit vectors that lie near each other, some of them twice."""
    rows = 1 + spread * np.random.default_rng(seed).standard_normal((n, dim))
    rows[n // 2], rows[n // 3] = rows[1], rows[1]
    return unit(rows.astype(np.float32))


@pytest.mark.parametrize("spread", [1.0, 1e-3, 1e-6, 0.0])
@pytest.mark.parametrize("k", [1, 5, 90])
def test_the_best_items_are_those_of_float64_however_near_the_vectors_are(monkeypatch, spread, k):
    queries, gallery = nearly_alike(40, spread, 0), nearly_alike(90, spread, 1)
    monkeypatch.setattr("eyechart.metrics.retrieval.BLOCK_BYTES", 28 * 90 * 7)

    items = top_items(queries, gallery, k)

    exact = (queries[:, None, :].astype(np.float64) * gallery[None].astype(np.float64)).sum(axis=2)
    assert items.tolist() == np.argsort(-exact, axis=1, kind="stable")[:, :k].tolist()


class TestZeroVectors:
    """A zero vector is similar to nothing: what is right and has one is never found."""

    def test_a_right_answer_that_is_zero_stands_last_although_all_others_point_away(self):
        queries = np.array([[1, 0]], np.float32)
        gallery = np.array([[0, 0], [-1, 0], [-1, 1]], np.float32)

        found = rank_positives(queries, gallery, Positives.one_each(np.array([0])))

        assert (found.ranks.tolist(), found.tied.tolist()) == ([3], [True])

    def test_a_query_that_is_zero_finds_nothing(self):
        gallery = np.eye(3, dtype=np.float32)

        found = rank_positives(np.zeros((1, 3), np.float32), gallery, Positives.one_each(np.array([1])))

        assert (found.ranks.tolist(), found.tied.tolist()) == ([3], [True])
        assert top_items(np.zeros((1, 3), np.float32), gallery, 2).tolist() == [[0, 1]]

    def test_another_right_answer_still_counts(self):
        gallery = np.array([[0, 0], [-1, 0], [-1, 0.1]], np.float32)

        found = rank_positives(np.array([[1, 0]], np.float32), gallery, Positives(np.array([0, 2]), np.array([0])))

        assert found.ranks.tolist() == [2]


def test_texts_may_belong_to_several_images():
    images = np.eye(3, dtype=np.float32)
    texts = np.array([[1, 0.5, 0], [0, 0.1, 1]], np.float32)

    # The first text describes the images 1 and 2, the second the images 0 and 2.
    to_images, to_texts = rank_both_ways(images, texts, np.array([1, 2, 0, 2]), np.array([0, 0, 1, 1]))

    assert to_images.ranks.tolist() == [2, 1]
    assert to_texts.ranks.tolist() == [2, 1, 1]


def test_equal_rows_share_one_number_in_order_of_appearance():
    first, number, count = distinct_rows(np.array([[2, 2], [1, 1], [2, 2]], np.float32))

    assert first.tolist() == [0, 1]
    assert number.tolist() == [0, 1, 0]
    assert count.tolist() == [2, 1]


@pytest.mark.parametrize("place", [0, 5, 511])
def test_rows_that_differ_in_one_number_of_many_are_told_apart(place):
    rows = np.ones((3, 512), np.float32)
    rows[1, place] = 2

    assert distinct_rows(rows)[1].tolist() == [0, 1, 0]


def test_rows_that_share_a_code_by_accident_are_told_apart(monkeypatch):
    monkeypatch.setattr("eyechart.metrics.vectors._codes", lambda rows: np.zeros(len(rows), np.uint64))

    first, number, count = distinct_rows(np.array([[2, 2], [1, 1], [2, 2]], np.float32))

    assert (first.tolist(), number.tolist(), count.tolist()) == ([0, 1], [0, 1, 0], [2, 1])


@pytest.mark.parametrize("lengths", [(1e25, 1e25), (1e38, 1.0), (1e-22, 1e-22), (1.0, 1e-38), (1e-20, 1e30)])
def test_vectors_whose_products_leave_float32_are_ranked_all_the_same(lengths):
    rng = np.random.default_rng(0)
    queries, gallery = (
        (rng.uniform(-1, 1, (n, 16)) * length).astype(np.float32) for n, length in zip((40, 60), lengths, strict=True)
    )
    exact = (queries.astype(np.float64) / lengths[0]) @ (gallery.astype(np.float64) / lengths[1]).T
    own = np.arange(40)
    wanted = 1 + (exact > exact[own, own][:, None]).sum(axis=1)
    positives = Positives.one_each(own)

    assert rank_positives(queries, gallery, positives).ranks.tolist() == wanted.tolist()
    assert rank_relevant(queries, gallery, positives).ranks.tolist() == wanted.tolist()
    assert top_items(queries, gallery, 5).tolist() == np.argsort(-exact, axis=1)[:, :5].tolist()
