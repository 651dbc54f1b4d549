"""Mean average precision against sklearn, with weights and ties."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from eyechart.stats import average_precision_interval, mean_average_precision, paired_average_precision


def multilabel(n, classes, rate, seed, shift=1.5):
    generator = np.random.default_rng(seed)
    targets = generator.random((n, classes)) < rate
    return generator.standard_normal((n, classes)) + shift * targets, targets


@settings(max_examples=60)
@given(st.integers(0, 10_000), st.integers(2, 40), st.booleans(), st.booleans())
def test_equals_sklearn_with_ties_and_weights(seed, n, ties, weighted):
    scores, targets = multilabel(n, 3, 0.4, seed)
    targets[0] = True
    scores = np.round(scores) if ties else scores
    weights = np.random.default_rng(seed).integers(0, 4, n) if weighted else np.ones(n)
    weights[0] = 1
    expected = average_precision_score(targets, scores, sample_weight=weights)
    assert mean_average_precision(scores, targets, weights) == pytest.approx(expected)


def test_classes_without_positives_are_left_out():
    scores, targets = multilabel(50, 2, 0.3, 0)
    with_empty = np.column_stack([targets, np.zeros(50, dtype=bool)])
    scores_with_empty = np.column_stack([scores, scores[:, 0]])
    assert mean_average_precision(scores_with_empty, with_empty) == mean_average_precision(scores, targets)


def test_the_interval_holds_the_estimate_and_shrinks_with_images():
    few, many = multilabel(800, 5, 0.1, 1), multilabel(3200, 5, 0.1, 1)
    narrow, wide = average_precision_interval(*many, rounds=300), average_precision_interval(*few, rounds=300)
    assert narrow.low < mean_average_precision(*many) < narrow.high
    assert narrow.half_width == pytest.approx(wide.half_width / 2, rel=0.2)


def test_a_perfect_ranking_keeps_a_width():
    targets = np.arange(60)[:, None] < 20
    low, high = average_precision_interval(targets.astype(float), targets, rounds=100)
    assert high == 1.0
    assert 0.8 < low < 0.95


def test_without_positives_there_is_no_interval():
    with pytest.raises(ValueError, match="no class has a positive"):
        average_precision_interval(np.ones((4, 2)), np.zeros((4, 2)))


@pytest.mark.parametrize("scores", [np.ones((4, 3)), np.full((4, 2), np.nan), np.ones(4)])
def test_unfit_scores_are_refused(scores):
    with pytest.raises(ValueError, match="scores"):
        mean_average_precision(scores, np.ones((4, 2)))


def test_a_paired_difference_is_that_of_the_two_values():
    (first, targets), (second, _) = multilabel(400, 4, 0.3, 3, shift=2.0), multilabel(400, 4, 0.3, 3, shift=1.0)

    paired = paired_average_precision(first, second, targets, rounds=200)

    expected = mean_average_precision(first, targets) - mean_average_precision(second, targets)
    assert paired.difference == pytest.approx(expected)
    assert paired.interval.low > 0
    assert paired.p_value < 0.001


def test_the_paired_test_rejects_a_true_null_about_as_often_as_it_says():
    rejected = 0
    for seed in range(300):
        generator = np.random.default_rng(seed)
        targets = generator.random((150, 3)) < 0.3
        first, second = (generator.standard_normal((150, 3)) + targets for _ in range(2))
        rejected += paired_average_precision(first, second, targets, rounds=150, seed=seed).p_value < 0.05
    assert 0.02 <= rejected / 300 <= 0.085  # 5 %, three standard errors wide


def test_equal_scores_are_not_told_apart():
    scores, targets = multilabel(80, 2, 0.4, 5)
    paired = paired_average_precision(scores, scores, targets, rounds=50)
    assert paired.p_value == 1.0
    assert paired.interval.low < 0 < paired.interval.high
