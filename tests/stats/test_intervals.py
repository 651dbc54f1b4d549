"""Closed-form intervals: against statsmodels and scipy, at the edges, and by their properties."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats
from statsmodels.stats.proportion import proportion_confint

from eyechart.stats import (
    Interval,
    clustered_proportion,
    mean_recall_interval,
    normal_quantile,
    student_quantile,
    wilson,
)


@given(n=st.integers(1, 100_000), share=st.floats(0, 1), level=st.floats(0.5, 0.999))
def test_wilson_equals_statsmodels(n, share, level):
    successes = round(share * n)
    expected = proportion_confint(successes, n, alpha=1 - level, method="wilson")
    assert wilson(successes, n, level) == pytest.approx(expected, abs=1e-12)


def test_wilson_touches_the_edge_exactly():
    assert wilson(0, 20).low == 0.0
    assert wilson(20, 20).high == 1.0
    assert wilson(0, 20).high > 0.1


def test_half_widths_that_tables_hide():
    assert wilson(0.75 * 50_000, 50_000).half_width == pytest.approx(0.0038, abs=1e-4)
    assert wilson(947, 1000).half_width == pytest.approx(0.014, abs=1e-3)


@pytest.mark.parametrize(("successes", "n"), [(1, 0), (-1, 5), (6, 5), (float("nan"), 5)])
def test_wilson_refuses_impossible_counts(successes, n):
    with pytest.raises(ValueError, match="successes"):
        wilson(successes, n)


@pytest.mark.parametrize("level", [0, 1, 95])
def test_a_level_is_a_fraction(level):
    with pytest.raises(ValueError, match="level"):
        wilson(1, 2, level)


@given(st.floats(1e-9, 1 - 1e-9))
def test_normal_quantile_equals_scipy(probability):
    assert normal_quantile(probability) == pytest.approx(scipy_stats.norm.ppf(probability), abs=1e-9)


@pytest.mark.parametrize("probability", [0.005, 0.025, 0.05, 0.3, 0.5, 0.9, 0.975, 0.995])
@pytest.mark.parametrize("degrees", [1, 2, 3, 5, 10, 100, 50_000])
def test_student_quantile_is_close_to_scipy(probability, degrees):
    tolerance = 0.01 if degrees == 3 else 0.003
    expected = scipy_stats.t.ppf(probability, degrees)
    assert student_quantile(probability, degrees) == pytest.approx(expected, rel=tolerance, abs=1e-12)


@given(st.lists(st.integers(0, 1), min_size=2, max_size=300))
def test_clusters_of_one_row_give_wilson(rows):
    interval = clustered_proportion(rows, np.ones(len(rows)))
    assert interval == pytest.approx(wilson(sum(rows), len(rows)), abs=1e-9)


def test_rows_that_always_agree_count_once_per_cluster():
    images = np.array([1, 0, 1, 1, 0, 1, 0, 0] * 50)
    five_copies = clustered_proportion(5 * images, np.full(images.size, 5))
    once = wilson(images.sum(), images.size)
    assert five_copies == pytest.approx(once, abs=1e-3)


@pytest.mark.parametrize("hits", [0, 5])
def test_all_misses_or_all_hits_count_the_clusters(hits):
    assert clustered_proportion(np.full(40, hits), np.full(40, 5)).half_width == pytest.approx(
        wilson(8 * hits, 40).half_width, rel=0.05
    )


def test_width_does_not_jump_beside_the_edge():
    sizes = np.full(200, 5)
    one_hit = np.zeros(200)
    one_hit[0] = 1
    none, one = clustered_proportion(np.zeros(200), sizes), clustered_proportion(one_hit, sizes)
    assert one.high > 0.5 * none.high


def test_a_single_cluster_knows_almost_nothing():
    assert clustered_proportion([3], [5]).half_width > 0.35


def test_fractional_scores_are_narrower_than_rights_and_wrongs():
    generator = np.random.default_rng(0)
    scores = 0.5 + 0.1 * generator.standard_normal(500).clip(-3, 3)
    expected = 1.96 * 0.1 / np.sqrt(500)
    assert clustered_proportion(scores, np.ones(500)).half_width == pytest.approx(expected, rel=0.1)


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9)), min_size=1, max_size=60),
    st.sampled_from([0.8, 0.95, 0.99]),
)
def test_clustered_interval_holds_the_estimate_and_lies_in_the_unit_interval(pairs, level):
    sizes = np.array([size for _, size in pairs])
    hits = np.minimum([hit for hit, _ in pairs], sizes)
    low, high = clustered_proportion(hits, sizes, level)
    assert 0 <= low <= hits.sum() / sizes.sum() <= high <= 1


@pytest.mark.parametrize(("hits", "sizes"), [([], []), ([1, 2], [3]), ([4], [3]), ([0], [0]), ([-1], [3])])
def test_clustered_proportion_refuses_what_is_no_proportion(hits, sizes):
    with pytest.raises(ValueError, match="need"):
        clustered_proportion(hits, sizes)


def test_mean_recall_of_equal_classes_with_equal_recall_is_wilson():
    correct = np.tile([1, 1, 1, 0], 250)
    labels = np.repeat(np.arange(10), 100)
    assert mean_recall_interval(correct, labels) == pytest.approx(wilson(750, 1000), abs=1e-3)


def test_a_rare_class_decides_the_width():
    labels = np.array([0] * 1000 + [1] * 10)
    correct = np.concatenate([np.tile([1, 0], 500), np.tile([1, 0], 5)])
    standard_error_of_ten = (0.25 / 9) ** 0.5
    expected = 1.96 * standard_error_of_ten / 2
    assert mean_recall_interval(correct, labels).half_width == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("value", [0, 1])
def test_perfect_and_hopeless_models_keep_a_width(value):
    labels = np.arange(60) % 20
    low, high = mean_recall_interval(np.full(60, value), labels)
    assert high - low == pytest.approx(wilson(60 * value, 60).half_width * 2, rel=0.01)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 6)), min_size=1, max_size=80))
def test_mean_recall_interval_holds_its_estimate(rows):
    correct, labels = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    estimate = np.mean([correct[labels == c].mean() for c in np.unique(labels)])
    low, high = mean_recall_interval(correct, labels)
    assert 0 <= low <= estimate + 1e-12
    assert estimate - 1e-12 <= high <= 1


@given(st.lists(st.booleans(), min_size=10, max_size=50), st.randoms(use_true_random=False))
def test_order_and_names_of_classes_do_not_matter(correct, random):
    labels = [i % 3 for i in range(len(correct))]
    rows = list(zip(correct, labels, strict=True))
    random.shuffle(rows)
    renamed = mean_recall_interval([row[0] for row in rows], ["cab"[row[1]] for row in rows])
    assert renamed == pytest.approx(mean_recall_interval(correct, labels))


def test_mean_recall_needs_a_label_for_each_sample():
    with pytest.raises(ValueError, match="one label per sample"):
        mean_recall_interval([1, 0], [1])
    with pytest.raises(ValueError, match="in \\[0, 1\\]"):
        mean_recall_interval([2.0], [1])


def test_an_interval_is_a_pair():
    low, high = Interval(0.1, 0.3)
    assert (low, high) == (0.1, 0.3)
    assert Interval(0.1, 0.3).half_width == pytest.approx(0.1)
