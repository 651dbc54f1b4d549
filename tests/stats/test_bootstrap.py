"""The bootstrap: against scipy's, against closed forms, and reproducible."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import bootstrap as scipy_bootstrap

from eyechart.stats import bootstrap, bootstrap_ratio, clustered_proportion, paired_bootstrap

SKEWED = np.random.default_rng(0).exponential(size=400)


def test_percentiles_agree_with_scipy():
    theirs = scipy_bootstrap((SKEWED,), np.mean, n_resamples=20_000, method="percentile", rng=1)
    ours = bootstrap_ratio(SKEWED, rounds=20_000)
    assert ours == pytest.approx(tuple(theirs.confidence_interval), abs=0.01)


def test_bca_agrees_with_scipy():
    theirs = scipy_bootstrap((SKEWED,), np.mean, n_resamples=20_000, method="bca", rng=1)
    ours = bootstrap_ratio(SKEWED, rounds=20_000, method="bca")
    assert ours == pytest.approx(tuple(theirs.confidence_interval), abs=0.01)
    assert sum(ours) > sum(bootstrap_ratio(SKEWED, rounds=20_000)), "a skewed mean is corrected upwards"


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_any_statistic_of_weights(method):
    def geometric_mean(weights):
        return np.exp(weights @ np.log(SKEWED) / weights.sum(axis=1))

    def direct(x, axis):
        return np.exp(np.log(x).mean(axis=axis))

    theirs = scipy_bootstrap((SKEWED,), direct, n_resamples=10_000, method=method, rng=1)
    ours = bootstrap(geometric_mean, SKEWED.size, rounds=10_000, method=method)
    assert ours == pytest.approx(tuple(theirs.confidence_interval), abs=0.01)


def test_few_and_many_kinds_of_units_give_the_same_interval():
    rights = np.random.default_rng(3).random(1000) < 0.7
    grouped = bootstrap_ratio(rights, rounds=20_000)
    unit_by_unit = bootstrap_ratio(rights + np.linspace(0, 1e-9, 1000), rounds=20_000)
    assert grouped == pytest.approx(unit_by_unit, abs=2e-3)


def test_a_ratio_of_sums_agrees_with_the_closed_form():
    generator = np.random.default_rng(4)
    sizes = generator.integers(1, 8, 600)
    hits = generator.binomial(sizes, generator.beta(2, 2, 600))
    assert bootstrap_ratio(hits, sizes) == pytest.approx(clustered_proportion(hits, sizes), abs=3e-3)


def test_resamples_without_a_value_are_left_out():
    def share_of_first_or_undefined(weights):
        return np.where(weights[:, 0] > 0, weights[:, 0] / weights.sum(axis=1), np.nan)

    low, high = bootstrap(share_of_first_or_undefined, 10)
    assert low == pytest.approx(0.1)
    assert high > 0.2


def test_a_statistic_that_never_exists_is_an_error():
    with pytest.raises(ValueError, match="undefined"):
        bootstrap(lambda weights: np.full(len(weights), np.nan), 5)


def test_the_seed_decides():
    assert bootstrap_ratio(SKEWED, seed=1) == bootstrap_ratio(SKEWED, seed=1)
    assert bootstrap_ratio(SKEWED, seed=1) != bootstrap_ratio(SKEWED, seed=2)


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.integers(200, 400))
def test_swapping_the_models_turns_the_difference_round(seed, n):
    first, second = np.random.default_rng(seed).random((2, n)) < 0.6
    forth = paired_bootstrap(first, second, rounds=4000)
    back = paired_bootstrap(second, first, rounds=4000)
    assert forth.difference == pytest.approx(-back.difference)
    assert forth.interval == pytest.approx((-back.interval.high, -back.interval.low), abs=0.03)
    assert forth.p_value == pytest.approx(back.p_value, abs=0.1)


def test_pairing_removes_the_difficulty_of_samples():
    generator = np.random.default_rng(0)
    difficulty = generator.random(800)
    first, second = difficulty * 0.9 + 0.02, difficulty * 0.9
    result = paired_bootstrap(first, second)
    assert result.difference == pytest.approx(0.02)
    assert result.interval.low > 0.01
    assert result.p_value < 0.01


def test_clusters_widen_the_interval():
    image_gain = np.arange(100) < 57
    first, second = np.repeat(image_gain, 5), np.repeat(1 - image_gain, 5)
    images = np.repeat([f"image{i}" for i in range(100)], 5)
    apart = paired_bootstrap(first, second)
    together = paired_bootstrap(first, second, images)
    assert (apart.n, apart.n_clusters, together.n, together.n_clusters) == (500, 500, 500, 100)
    ratio = together.interval.half_width / apart.interval.half_width
    assert ratio == pytest.approx(5**0.5, rel=0.05)
    assert together.p_value > apart.p_value


def test_models_that_answer_alike_are_not_surely_equal():
    result = paired_bootstrap([1, 0, 1, 1] * 10, [1, 0, 1, 1] * 10)
    assert result.difference == 0
    assert result.p_value == 1
    assert result.interval.high == pytest.approx(-result.interval.low)
    assert 0.05 < result.interval.high < 0.15


def test_a_large_difference_has_a_small_p_value():
    assert paired_bootstrap(np.ones(100), np.arange(100) % 2).p_value < 1e-3


@pytest.mark.parametrize(("first", "second", "clusters"), [([], [], None), ([1], [1, 0], None), ([1], [0], [1, 2])])
def test_unpaired_samples_are_refused(first, second, clusters):
    with pytest.raises(ValueError, match="need"):
        paired_bootstrap(first, second, clusters)
