"""Mean average precision: one definition for the metric, its interval and its paired test."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from eyechart.metrics.classification import average_precision
from eyechart.stats import average_precision_interval, mean_average_precision, paired_average_precision
from eyechart.stats.average_precision import _leave_one_out


def multilabel(n, classes, rate, seed, shift=1.5):
    generator = np.random.default_rng(seed)
    targets = generator.random((n, classes)) < rate
    return generator.standard_normal((n, classes)) + shift * targets, targets


SCORES = {
    "random": lambda scores: scores,
    "ties": np.round,
    "all equal": np.zeros_like,
    "perfect but for ties": lambda scores: (scores > 1).astype(float),
}
kinds = pytest.mark.parametrize("kind", SCORES)


@kinds
@pytest.mark.parametrize("seed", range(5))
def test_the_value_is_the_metrics_and_lies_in_its_interval(kind, seed):
    scores, targets = multilabel(60, 3, 0.4, seed)
    scores = SCORES[kind](scores)
    value = mean_average_precision(scores, targets)
    assert value == pytest.approx(np.mean([average_precision(scores[:, c], targets[:, c]) for c in range(3)]))
    low, high = average_precision_interval(scores, targets)
    assert 0 <= low <= value <= high <= 1
    assert high - low < 0.5
    paired = paired_average_precision(scores, 1 - scores, targets)
    assert paired.difference == pytest.approx(value - mean_average_precision(1 - scores, targets))


def test_ties_never_help():
    assert mean_average_precision([[1.0]] * 3, [[True], [True], [False]]) == pytest.approx((1 / 2 + 2 / 3) / 2)


@settings(max_examples=60)
@given(st.integers(0, 10_000), st.integers(2, 40))
def test_without_ties_it_equals_sklearn(seed, n):
    scores, targets = multilabel(n, 3, 0.4, seed)
    targets[0] = True
    assert mean_average_precision(scores, targets) == pytest.approx(average_precision_score(targets, scores))


@settings(max_examples=100)
@given(st.integers(0, 10_000), st.integers(2, 25), st.booleans())
def test_leaving_out_one_image_is_computed_as_if_it_were_deleted(seed, n, ties):
    scores, targets = multilabel(n, 1, 0.4, seed)
    scores, targets = np.round(scores[:, 0]) if ties else scores[:, 0], targets[:, 0]
    targets[0] = True
    value, without = _leave_one_out(scores, targets)
    assert value == pytest.approx(average_precision(scores, targets))
    others = [np.arange(n) != j for j in range(n)]
    assert without == pytest.approx([average_precision(scores[k], targets[k]) for k in others], nan_ok=True)


def test_classes_without_positives_are_left_out():
    scores, targets = multilabel(50, 2, 0.3, 0)
    with_empty = np.column_stack([targets, np.zeros(50, dtype=bool)])
    scores_with_empty = np.column_stack([scores, scores[:, 0]])
    assert mean_average_precision(scores_with_empty, with_empty) == mean_average_precision(scores, targets)
    assert average_precision_interval(scores_with_empty, with_empty) == average_precision_interval(scores, targets)


def test_the_interval_shrinks_with_images():
    few, many = multilabel(800, 5, 0.1, 1), multilabel(3200, 5, 0.1, 1)
    narrow, wide = average_precision_interval(*many), average_precision_interval(*few)
    assert narrow.half_width == pytest.approx(wide.half_width / 2, rel=0.2)


def test_a_perfect_ranking_keeps_a_width():
    targets = np.arange(60)[:, None] < 20
    low, high = average_precision_interval(targets.astype(float), targets)
    assert high == 1.0
    assert 0.7 < low < 0.95


def test_a_handful_of_positives_is_too_few():
    scores, targets = multilabel(200, 1, 0.5, 0)
    assert average_precision_interval(scores, (np.arange(200) < 4)[:, None]) is None
    assert average_precision_interval(scores, targets) is not None


def test_without_positives_there_is_no_average_precision():
    assert np.isnan(mean_average_precision(np.ones((4, 2)), np.zeros((4, 2))))
    with pytest.raises(ValueError, match="no class has a positive"):
        average_precision_interval(np.ones((4, 2)), np.zeros((4, 2)))


@pytest.mark.parametrize("scores", [np.ones((4, 3)), np.full((4, 2), np.nan), np.ones(4)])
def test_unfit_scores_are_refused(scores):
    with pytest.raises(ValueError, match="scores"):
        mean_average_precision(scores, np.ones((4, 2)))


def test_a_better_ranking_is_found():
    (first, targets), (second, _) = multilabel(400, 4, 0.3, 3, shift=2.0), multilabel(400, 4, 0.3, 3, shift=1.0)
    paired = paired_average_precision(first, second, targets)
    assert paired.interval.low > 0
    assert paired.p_value < 0.001


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10_000), st.integers(3, 40), st.booleans(), st.sampled_from([0.8, 0.95, 0.99]))
def test_the_p_value_is_small_exactly_when_the_interval_excludes_zero(seed, n, ties, level):
    scores, targets = multilabel(n, 2, 0.4, seed)
    targets[0] = True
    other = np.random.default_rng(seed + 1).standard_normal(scores.shape)
    if ties:
        scores, other = np.round(scores), np.round(other)
    paired = paired_average_precision(scores, other, targets, level=level)
    excludes = paired.interval is not None and not paired.interval.low <= 0 <= paired.interval.high
    assert (paired.p_value < 1 - level) == excludes


def test_equal_scores_are_not_told_apart():
    scores, targets = multilabel(80, 2, 0.4, 5)
    paired = paired_average_precision(scores, scores, targets)
    assert paired.p_value == 1.0
    assert paired.interval.low < 0 < paired.interval.high
