import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, balanced_accuracy_score, top_k_accuracy_score

from eyechart.metrics.classification import average_precision, per_class_recall, rank_labels
from eyechart.metrics.vectors import mean_of_units, unit


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

    ranking = rank_labels(images, classes, np.array([1, 2, 0]))

    assert ranking.ranks.tolist() == [1, 2, 3]
    assert ranking.top[0].tolist() == [1, 2, 0]
    assert ranking.ties == 0


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

    means = mean_of_units(texts, np.array([0, 2]))

    np.testing.assert_allclose(means, [[2**-0.5, 2**-0.5], [1, 0]], atol=1e-6)


def test_a_zero_vector_stays_zero():
    assert unit(np.zeros((1, 3), np.float32)).tolist() == [[0, 0, 0]]
