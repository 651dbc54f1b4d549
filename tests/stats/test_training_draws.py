"""Few-shot results: intervals and paired tests over test samples and draws of training images."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from eyechart.stats import Interval, paired_test, paired_test_over_draws, proportion, widen_for_draws
from eyechart.stats.intervals import student_tail


@pytest.mark.parametrize("degrees", [1, 2, 2.7, 4, 30, 999, 1001, 50_000])
@pytest.mark.parametrize("statistic", [0.01, 1.0, 2.5, 5.0])
def test_the_tail_of_students_t_is_scipys(statistic, degrees):
    assert student_tail(statistic, degrees) == pytest.approx(2 * scipy_stats.t.sf(statistic, degrees), rel=1e-3)


def drawn(rng, draws, n, spread):
    """Hits of one model whose accuracy depends on the training draw."""
    return (rng.random((draws, n)) < 0.6 + spread * rng.standard_normal((draws, 1))).astype(float)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(3, 8), st.integers(2, 60), st.sampled_from([0.0, 0.05, 0.3]))
def test_the_p_value_is_small_exactly_when_the_interval_excludes_zero(seed, draws, n, spread):
    rng = np.random.default_rng(seed)
    found = paired_test_over_draws(drawn(rng, draws, n, spread) * rng.random(), drawn(rng, draws, n, spread))
    excludes = found.interval is not None and not found.interval.low <= 0 <= found.interval.high
    assert (found.p_value < 0.05) == excludes


def test_equal_models_are_not_separated_by_the_luck_of_a_draw():
    rng = np.random.default_rng(1)
    alarms = {"one draw": 0, "all draws": 0}
    for _ in range(300):
        first, second = drawn(rng, 3, 1000, 0.05), drawn(rng, 3, 1000, 0.05)
        alarms["one draw"] += paired_test(first[0], second[0]).p_value < 0.05
        alarms["all draws"] += paired_test_over_draws(first, second).p_value < 0.05
    assert alarms["one draw"] > 100
    assert alarms["all draws"] <= 26  # 5 %, and three standard errors


def test_a_difference_in_every_draw_is_found():
    rng = np.random.default_rng(2)
    strong, weak = drawn(rng, 5, 1000, 0.02) * 1.0, drawn(rng, 5, 1000, 0.02) * 0.5
    found = paired_test_over_draws(strong, weak)
    assert found.difference == pytest.approx((strong - weak).mean())
    assert found.p_value < 0.01


def test_the_variances_of_draws_and_samples_add_up():
    """Many samples, and draws that differ by 0.1: what remains is Student's interval of the draws."""
    gains = np.repeat([[0.1], [0.2], [0.3], [0.4]], 2000, axis=1)
    found = paired_test_over_draws(gains, np.zeros_like(gains))
    theirs = scipy_stats.ttest_1samp([0.1, 0.2, 0.3, 0.4], 0)
    assert found.p_value == pytest.approx(theirs.pvalue, rel=0.02)
    assert found.interval == pytest.approx(tuple(theirs.confidence_interval()), rel=0.02)


def test_draws_that_agree_by_chance_still_count_as_drawn():
    """The means of the draws are equal, but not the predictions: another draw may give another mean."""
    first = np.zeros((3, 30))
    for draw in range(3):
        first[draw, 7 * draw : 7 * draw + 8] = 1
    plain = paired_test(first.mean(axis=0), np.zeros(30))
    assert paired_test_over_draws(first, np.zeros((3, 30))).interval.half_width > 2 * plain.interval.half_width


@pytest.mark.parametrize("draws", [1, 2])
def test_one_or_two_draws_give_neither_interval_nor_p_value(draws):
    rng = np.random.default_rng(3)
    hits = drawn(rng, draws, 100, 0.1)
    assert paired_test_over_draws(hits, drawn(rng, draws, 100, 0.1)) is None
    assert widen_for_draws(Interval(0.5, 0.7), hits) is None


def test_the_interval_of_one_draw_grows_with_the_spread_of_the_draws():
    rng = np.random.default_rng(4)
    plain = proportion(600, 1000)
    close, apart = (widen_for_draws(plain, drawn(rng, 5, 1000, spread)) for spread in (0.0, 0.1))
    assert plain.half_width < close.half_width < apart.half_width / 2
    assert widen_for_draws(None, drawn(rng, 5, 3, 0.1)) is None
