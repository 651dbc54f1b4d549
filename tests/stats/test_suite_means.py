"""Means over a suite: their intervals cover, the paired test agrees with scipy, and the sample size gives the power."""

import numpy as np
import pytest
from scipy import stats as scipy_stats

from eyechart.stats import (
    mean_interval,
    mean_of_intervals,
    more_units_to_decide,
    paired_suite_test,
    paired_test,
    rank_intervals,
)


def test_the_interval_of_a_mean_over_benchmarks_covers():
    rng = np.random.default_rng(5)
    truths, sizes = np.array([0.9, 0.6, 0.25]), (150, 400, 80)
    held = 0
    for _ in range(1500):
        samples = [rng.random(n) < p for n, p in zip(sizes, truths, strict=True)]
        found = mean_of_intervals([s.mean() for s in samples], [mean_interval(s) for s in samples], [1 / 3] * 3)
        held += found.low <= truths.mean() <= found.high
    assert 0.93 <= held / 1500 <= 0.975


def test_the_interval_of_two_metrics_on_the_same_images_covers():
    """Two languages on one set of images: without the correlation the interval is too short."""
    rng = np.random.default_rng(6)
    held, ignored = 0, 0
    for _ in range(1000):
        rates = rng.beta(0.6, 0.4, 300)
        both = rng.random((2, 300)) < rates
        values, ends = both.mean(axis=1), [mean_interval(row) for row in both]
        found = mean_of_intervals(values, ends, [0.5, 0.5], np.corrcoef(both))
        held += found.low <= 0.6 <= found.high
        short = mean_of_intervals(values, ends, [0.5, 0.5])
        ignored += short.low <= 0.6 <= short.high
    assert 0.93 <= held / 1000 <= 0.975
    assert ignored / 1000 < 0.93


def test_one_benchmark_keeps_its_interval_and_normal_ones_have_the_textbook_formula():
    assert mean_of_intervals([0.8], [(0.7, 0.85)], [1]) == pytest.approx((0.7, 0.85))
    errors, z = np.array([0.01, 0.02, 0.04]), scipy_stats.norm.ppf(0.975)
    means = np.array([0.3, 0.5, 0.7])
    found = mean_of_intervals(means, np.stack([means - z * errors, means + z * errors], axis=1), [1 / 3] * 3)
    assert found == pytest.approx(scipy_stats.norm.interval(0.95, 0.5, np.sqrt((errors**2).sum()) / 3))


def test_the_paired_interval_of_two_averages_covers():
    rng = np.random.default_rng(7)
    held = 0
    for _ in range(1000):
        suite = [
            np.stack([easy := rng.random(n) < p, np.where(rng.random(n) < 0.2, rng.random(n) < p - 0.1, easy)])
            for n, p in ((200, 0.8), (500, 0.5))
        ]
        found = paired_suite_test(suite, [0.25, 0.75])
        held += found.interval.low <= 0.02 <= found.interval.high  # 0.1 on a fifth of the samples
    assert 0.93 <= held / 1000 <= 0.975


def test_the_test_of_a_suite_is_that_of_ranks_and_of_one_benchmark_and_near_scipys():
    rng = np.random.default_rng(8)
    scores = rng.random((2, 400)) < np.array([[0.7], [0.64]])
    one = paired_suite_test([scores])
    alone = paired_test(*scores)
    expected = alone.difference, alone.p_value, *alone.interval
    assert (one.difference, one.p_value, *one.interval) == pytest.approx(expected, rel=1e-9)
    assert one.spread == pytest.approx(scipy_stats.sem(scores[0].astype(float) - scores[1], ddof=0))
    assert one.p_value == pytest.approx(scipy_stats.ttest_rel(*scores.astype(float)).pvalue, abs=0.01)
    separate = rank_intervals([scores])[0] == (1, 1)
    assert separate == (one.p_value < 0.05)


def test_weights_decide_how_much_a_benchmark_counts():
    first, second = [[1] * 50, [0] * 50], [[0] * 50, [1] * 50]
    assert paired_suite_test([first, second], [0.9, 0.1]).difference == pytest.approx(0.8)
    assert rank_intervals([first, second], weights=[0.1, 0.9]) == [(2, 2), (1, 1)]


def test_as_many_more_samples_find_the_difference_four_times_out_of_five():
    rng = np.random.default_rng(9)
    pilot = rng.random((2, 300)) < np.array([[0.70], [0.66]])
    test = paired_suite_test([pilot])
    more = more_units_to_decide(test)

    observed = pilot[0].astype(int) - pilot[1]
    n = 300 + round(more)
    found = 0
    for _ in range(500):
        drawn = rng.choice(observed, n)
        found += paired_suite_test([np.stack([drawn == 1, drawn == -1])]).p_value < 0.05
    assert found / 500 == pytest.approx(0.8, abs=0.06)
    z = scipy_stats.norm.ppf(0.975) + scipy_stats.norm.ppf(0.8)
    assert n == pytest.approx((z * observed.std() / observed.mean()) ** 2, abs=1)


@pytest.mark.parametrize("scores", [[[1, 0] * 50] * 2, [[1] * 100, [0] * 100]], ids=["equal", "detected"])
def test_no_number_of_samples_is_given_where_none_can_be(scores):
    assert more_units_to_decide(paired_suite_test([scores])) is None
