import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, balanced_accuracy_score, top_k_accuracy_score

from eyechart.errors import ModelError
from eyechart.metrics.classification import (
    average_precision,
    first_choices,
    per_class_recall,
    rank_labels,
    rank_scores,
)
from eyechart.metrics.vectors import all_alike, mean_of_units, unit


def vectors(n, seed, dim=8):
    return unit(np.random.default_rng(seed).standard_normal((n, dim)).astype(np.float32))


@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(2, 12))
def test_accuracy_agrees_with_sklearn_when_nothing_ties(seed, n, c):
    images, classes = vectors(n, seed), vectors(c, seed + 1)
    labels = np.random.default_rng(seed).integers(0, c, n)

    ranks = rank_labels(images, classes, labels).ranks

    scores = images @ classes.T
    for k in (1, min(5, c - 1)):
        expected = top_k_accuracy_score(labels, scores, k=k, labels=range(c)) if c > 2 else np.mean(ranks <= k)
        assert np.isclose(np.mean(ranks <= k), expected)


@given(st.integers(0, 2**32 - 1))
def test_mean_per_class_recall_is_balanced_accuracy(seed):
    rng = np.random.default_rng(seed)
    labels, predictions = rng.integers(0, 5, 30), rng.integers(0, 5, 30)

    recall = per_class_recall(labels == predictions, labels, 5)

    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # sklearn warns of predicted classes that no sample has
        assert np.isclose(np.mean(list(recall.values())), balanced_accuracy_score(labels, predictions))


def test_blocks_do_not_change_the_ranks(monkeypatch):
    images, classes, labels = vectors(50, 0), vectors(7, 1), np.arange(50) % 7
    whole = rank_labels(images, classes, labels)

    monkeypatch.setattr("eyechart.metrics.classification.BLOCK_BYTES", 200)
    blocked = rank_labels(images, classes, labels)

    np.testing.assert_array_equal(whole.ranks, blocked.ranks)
    np.testing.assert_array_equal(whole.top, blocked.top)


def test_a_tie_between_different_classes_counts_against_the_label():
    images = np.array([[1, 0]], np.float32)
    classes = np.array([[0.6, 0.8], [0.6, -0.8]], np.float32)

    for label in (0, 1):
        ranking = rank_labels(images, classes, np.array([label]))
        assert ranking.ranks.tolist() == [2]
        assert ranking.ties == 1


def test_a_duplicate_name_lets_the_first_win_and_stands_one_behind():
    images = np.array([[1, 0]] * 3, np.float32)
    classes = np.array([[0, 1], [1, 0], [1, 0]], np.float32)

    ranking = rank_labels(images, classes, np.array([1, 2, 0]), ["dog", "crane", "crane"])

    assert ranking.ranks.tolist() == [1, 2, 3]
    assert ranking.top[0].tolist() == [1, 2, 0]
    assert ranking.ties == 0


def test_equal_vectors_of_different_names_tie():
    images = np.array([[1, 0]] * 3, np.float32)
    classes = np.array([[0, 1], [1, 0], [1, 0]], np.float32)
    labels = np.array([1, 2, 0])

    ranking = rank_labels(images, classes, labels, ["dog", "crane", "bird"])

    assert ranking.ranks.tolist() == [2, 2, 3]
    assert ranking.ties == 2
    assert not first_choices(images, classes, labels, ["dog", "crane", "bird"]).any()


def test_a_name_that_stands_twice_ties_with_another_name_of_its_vector():
    classes = np.array([[1, 0]] * 3, np.float32)

    ranking = rank_labels(classes, classes, np.array([0, 1, 2]), ["crane", "crane", "bird"])

    assert ranking.ranks.tolist() == [2, 3, 3]


def test_a_class_whose_vector_is_zero_is_never_right():
    images = np.array([[1, 0]] * 2, np.float32)
    classes = np.array([[0, 0], [-1, 0], [-0.6, 0.8]], np.float32)
    labels = np.array([0, 2])

    assert rank_labels(images, classes, labels).ranks.tolist() == [3, 2]
    assert not first_choices(images, classes, labels).any()


def test_an_image_whose_vector_is_zero_is_never_right():
    images, classes, labels = np.zeros((1, 2), np.float32), np.eye(2, dtype=np.float32), np.array([0])

    for names in (None, ["crane", "crane"]):
        assert rank_labels(images, classes, labels, names).ranks.tolist() == [2]
        assert not first_choices(images, classes, labels, names).any()


@given(st.integers(0, 2**32 - 1), st.integers(2, 50))
def test_average_precision_agrees_with_sklearn_when_nothing_ties(seed, n):
    rng = np.random.default_rng(seed)
    scores = rng.permutation(n).astype(np.float32)
    present = rng.random(n) < 0.4
    present[0] = True

    assert np.isclose(average_precision(scores, present), average_precision_score(present, scores))


@given(st.integers(1, 20), st.integers(1, 20))
def test_average_precision_of_a_constant_is_at_most_the_share_of_positives(positives, negatives):
    present = np.array([True] * positives + [False] * negatives)

    assert average_precision(np.zeros(len(present), np.float32), present) <= positives / len(present) + 1e-12


def test_the_mean_of_prompts_gives_each_prompt_the_same_weight_whatever_its_length():
    texts = np.array([[10, 0], [0, 1], [3, 0]], np.float32)

    means = mean_of_units(unit(texts), np.array([0, 2]))

    np.testing.assert_allclose(means, [[2**-0.5, 2**-0.5], [1, 0]], atol=1e-6)


def test_a_zero_vector_stays_zero():
    assert unit(np.zeros((1, 3), np.float32)).tolist() == [[0, 0, 0]]


@pytest.mark.parametrize("exponent", [-140, -100, -60, 0, 60, 83, 100, 120])
def test_unit_vectors_do_not_depend_on_the_length_that_a_model_gives(exponent):
    rows = np.random.default_rng(0).uniform(0.5, 1, (20, 64)).astype(np.float32)

    np.testing.assert_allclose(unit(np.ldexp(rows, exponent)), unit(rows), rtol=2e-7 if exponent > -125 else 1e-2)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_no_unit_vector_is_made_of_what_is_no_number(bad):
    rows = np.ones((3, 4), np.float32)
    rows[1, 2] = bad

    with pytest.raises(ModelError, match="1 vector contains NaN or infinite"):
        unit(rows)


def test_rows_are_alike_whatever_they_were_scaled_by():
    row, scales = np.random.default_rng(0).standard_normal(64), np.random.default_rng(1).uniform(0.1, 10, (50, 1))

    assert all_alike(unit((row * scales).astype(np.float32)))
    assert not all_alike(unit((row * scales + 1e-4 * np.eye(50, 64)).astype(np.float32)))
    assert not all_alike(unit(row[None].astype(np.float32)))


@pytest.mark.parametrize("columns", [1, 4, 5])
def test_a_class_without_a_column_ranks_after_all_of_them(columns):
    """With five learnt classes, a sixth one is not among the first five."""
    found = rank_scores(np.zeros((2, columns), np.float32), np.array([columns, columns + 3]))
    assert found.ranks.tolist() == [columns + 1] * 2
