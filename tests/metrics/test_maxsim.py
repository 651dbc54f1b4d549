"""MaxSim: exact, masked, independent of the batch; ties never help."""

import numpy as np
import pytest

from eyechart.errors import ModelError
from eyechart.metrics import maxsim as module
from eyechart.metrics.maxsim import LOWEST, maxsim
from eyechart.metrics.retrieval import rank_both_ways, rank_positives, rank_relevant, top_items
from eyechart.metrics.search import Positives, dots
from eyechart.metrics.vectors import MultiVectors, all_alike, concatenate, distinct_rows, zero_rows


def made(sizes, seed=0, dim=16, dtype=np.float32):
    rows = np.random.default_rng(seed).standard_normal((sum(sizes), dim))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return MultiVectors.of(np.split(rows.astype(dtype), np.cumsum(sizes)[:-1]), dim)


def items_of(vectors):
    return [vectors[i : i + 1].rows for i in range(len(vectors))]


def loop(queries, documents):
    """Compute MaxSim in float64, one pair at a time."""
    return np.array(
        [
            [
                (q.astype(np.float64) @ d.astype(np.float64).T).max(axis=1).sum() if len(q) and len(d) else LOWEST
                for d in items_of(documents)
            ]
            for q in items_of(queries)
        ]
    )


SIZES = [3, 1, 40, 0, 7, 2, 1]


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(("width", "cells"), [(2048, 1 << 20), (8, 64), (1, 1)])
def test_scores_are_those_of_a_float64_loop_in_any_tile(monkeypatch, dtype, width, cells):
    monkeypatch.setattr(module, "WIDTH", width)
    monkeypatch.setattr(module, "CELLS", cells)
    queries, documents = made([5, 0, 1, 9], 1, dtype=dtype), made(SIZES, 2, dtype=dtype)

    expected = loop(queries, documents)
    np.testing.assert_allclose(maxsim(queries, documents), expected, rtol=1e-6, atol=1e-5)
    query, item = (grid.ravel() for grid in np.meshgrid(np.arange(4), np.arange(7), indexing="ij"))
    np.testing.assert_allclose(dots(queries, documents, query, item), expected.ravel(), atol=1e-12)


def test_scores_are_those_of_sentence_transformers():
    util = pytest.importorskip("sentence_transformers.util")
    queries, documents = made([5, 2, 9], 1), made([3, 1, 40, 7], 2)

    library = util.maxsim(items_of(queries), items_of(documents)).numpy()
    np.testing.assert_allclose(maxsim(queries, documents), library, atol=1e-5)


def test_a_long_document_in_the_same_call_does_not_change_the_score_of_a_short_one():
    query, short = made([2], 3), MultiVectors.of([-made([2], 3).rows])  # all similarities may be negative
    alone = maxsim(query, short)
    together = maxsim(query, concatenate([short, made([50], 4)]))

    assert alone[0, 0] < 0
    assert together[0, 0] == pytest.approx(alone[0, 0], abs=1e-6)


def expected_ranks(scores, positives):
    right = dict.fromkeys(range(len(scores)), ())
    for query, item in zip(positives.queries(), positives.items, strict=True):
        right[int(query)] += (int(item),)
    ranks = []
    for query, row in enumerate(scores):
        wrong = np.delete(row, right[query])
        best = max(row[i] for i in right[query])
        ranks.append(1 + int((wrong >= best).sum()))
    return ranks


def test_ranks_follow_the_exact_scores():
    queries, documents = made([4, 2, 9, 5], 5), made([3, 1, 30, 7, 2, 2], 6)
    positives = Positives.of_pairs(np.array([0, 1, 1, 2, 3]), np.array([2, 0, 3, 5, 4]), 4)

    found = rank_positives(queries, documents, positives)
    assert found.ranks.tolist() == expected_ranks(loop(queries, documents), positives)
    assert rank_relevant(queries, documents, positives).best.tolist() == found.ranks.tolist()
    order = np.argsort(-loop(queries, documents), axis=1)
    assert top_items(queries, documents, 3).tolist() == order[:, :3].tolist()


def test_both_directions_sum_over_the_vectors_of_their_own_queries():
    images, texts = made([20, 30, 10], 7), made([4, 2, 6], 8)
    owner = np.arange(3)

    by_text, by_image = rank_both_ways(images, texts, owner)
    positives = Positives.one_each(owner)
    assert by_text.ranks.tolist() == expected_ranks(loop(texts, images), positives)
    assert by_image.ranks.tolist() == expected_ranks(loop(images, texts), positives)


def test_equal_documents_tie_exactly_wherever_they_are():
    """Copies of the right document, also with their vectors in another order, are ranked before it."""
    rng = np.random.default_rng(9)
    for trial in range(10):
        queries, base = made([7], trial), made([37], 100 + trial)
        copies = [base.rows, rng.permutation(base.rows), np.concatenate([base.rows, base.rows[:5]])]
        others = [-queries.rows[: 1 + i % 5] for i in range(50)]
        for place in (0, 17, 50):
            documents = MultiVectors.of([*others[:place], base.rows, *others[place:], *copies])
            found = rank_positives(queries, documents, Positives.one_each(np.array([place])))
            assert (found.ranks[0], bool(found.tied[0])) == (4, True)


def test_a_constant_model_with_items_of_several_lengths_is_never_right():
    row = made([1], 10).rows
    documents = MultiVectors.of([np.repeat(row, n, axis=0) for n in (3, 1, 8, 5)])
    queries = documents[np.array([1, 2, 0, 3])]

    found = rank_positives(queries, documents, Positives.one_each(np.array([1, 2, 0, 3])))
    assert found.ranks.tolist() == [4, 4, 4, 4]
    assert found.tied.all()
    assert all_alike(documents)


def test_items_without_vectors_are_never_right():
    queries, documents = made([4, 0, 3], 11), made([0, 5, 2, 0], 12)
    found = rank_positives(queries, documents, Positives.one_each(np.array([0, 1, 2])))

    assert found.ranks[:2].tolist() == [4, 4]  # nothing to find; nothing to ask with
    assert zero_rows(documents).tolist() == [True, False, False, True]
    assert rank_relevant(queries, documents, Positives.one_each(np.array([0, 1, 2]))).best[:2].tolist() == [4, 4]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_vectors_that_are_not_finite_are_refused(bad):
    documents = made([3, 2], 13)
    documents.rows[4, 0] = bad

    with pytest.raises(ModelError, match="1 vector contains NaN or infinite values"):
        rank_positives(made([2], 14), documents, Positives.one_each(np.array([0])))


def test_single_and_several_vectors_are_not_compared():
    with pytest.raises(ModelError, match="several vectors per item"):
        rank_positives(made([2], 14).rows, made([2, 2], 1), Positives.one_each(np.array([0, 0])))


def test_items_are_chosen_like_rows_of_an_array():
    vectors = made(SIZES)
    items = items_of(vectors)
    masks = np.array([True, False, True, True, False, False, True])

    for chosen in (slice(2, 5), slice(0, 0), slice(3, None), np.array([6, 0, 2, 2]), [1, 3], masks):
        expected = [items[i] for i in np.arange(7)[chosen]]
        found = items_of(vectors[chosen])
        assert len(found) == len(expected) == len(vectors[chosen])
        assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))
    assert np.shares_memory(vectors[2:5].rows, vectors.rows)
    joined = concatenate([vectors[:2], vectors[2:]])
    assert np.array_equal(joined.rows, vectors.rows)
    assert np.array_equal(joined.starts, vectors.starts)


def test_equal_items_are_found():
    vectors = made([3, 2, 3, 2])[np.array([0, 1, 0, 3, 1])]
    first, number, copies = distinct_rows(vectors)
    assert (first.tolist(), number.tolist(), copies.tolist()) == ([0, 1, 3], [0, 1, 0, 2, 1], [2, 2, 1])
    assert not all_alike(vectors)
    assert all_alike(vectors[[0, 2]])
    assert [len(part) for part in distinct_rows(vectors[:0])] == [0, 0, 0]
