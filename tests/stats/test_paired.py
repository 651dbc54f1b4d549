"""One paired test: its interval and its p-value never contradict each other."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, multinomial, norm, ttest_rel

from eyechart.stats import paired_test
from eyechart.stats.paired_tests import discordant, sign_flip_p_value

LEVELS = st.sampled_from([0.8, 0.9, 0.95, 0.99])


@st.composite
def two_models(draw):
    """Scores of two models on the same samples: rights and wrongs, halves or anything; in clusters or not."""
    n = draw(st.integers(1, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(["right", "halves", "any", "constant gain"]))
    ease = draw(st.floats(0.05, 0.95))
    if kind == "right":
        first, second = rng.random((2, n)) < np.array([[ease], [draw(st.floats(0.05, 0.95))]])
    elif kind == "halves":
        first, second = rng.integers(0, 3, (2, n)) / 2
    elif kind == "any":
        first, second = rng.beta(ease, 0.5, (2, n))
    else:
        second = rng.random(n) / 2
        first = second + 0.25
    clusters = draw(st.sampled_from([None, rng.integers(0, draw(st.integers(1, n)), n)]))
    return first, second, clusters


@settings(max_examples=400, deadline=None)
@given(two_models(), LEVELS)
def test_the_p_value_is_small_exactly_when_the_interval_excludes_zero(models, level):
    found = paired_test(*models, level=level)
    excludes = found.interval is not None and not found.interval.low <= 0 <= found.interval.high
    assert (found.p_value < 1 - level) == excludes


@settings(max_examples=100, deadline=None)
@given(two_models(), LEVELS)
def test_swapping_the_models_turns_everything_round(models, level):
    first, second, clusters = models
    forth, back = paired_test(first, second, clusters, level=level), paired_test(second, first, clusters, level=level)
    assert forth.difference == pytest.approx(-back.difference)
    assert forth.p_value == pytest.approx(back.p_value)
    assert (forth.interval is None) == (back.interval is None)
    if forth.interval and back.interval:
        assert forth.interval == pytest.approx((-back.interval.high, -back.interval.low))


@settings(max_examples=100, deadline=None)
@given(two_models(), LEVELS)
def test_the_interval_holds_the_difference(models, level):
    found = paired_test(*models, level=level)
    if found.interval is not None:
        assert -1 <= found.interval.low <= found.difference + 1e-12
        assert found.difference - 1e-12 <= found.interval.high <= 1


def rights(both, only_first, only_second, neither=0):
    first = [1] * (both + only_first) + [0] * (only_second + neither)
    second = [1] * both + [0] * only_first + [1] * only_second + [0] * neither
    return first, second


@given(st.integers(0, 60), st.integers(0, 60), st.integers(6, 200))
def test_for_rights_and_wrongs_the_statistic_is_mcnemars(only_first, only_second, both):
    found = paired_test(*rights(both, only_first, only_second))
    if only_first == only_second:
        assert found.p_value == 1
        return
    if only_first + only_second <= 25:
        exact = binomtest(only_first, only_first + only_second).pvalue
        assert found.test == "exact McNemar test"
        assert found.p_value == pytest.approx(exact) or found.p_value == pytest.approx(max(exact, 0.05))
        return
    n = only_first + only_second + both
    widening = 1 + 15 / n**2
    statistic = (only_first - only_second) ** 2 / (only_first + only_second) / widening
    assert found.p_value == pytest.approx(2 * norm.sf(statistic**0.5))


@pytest.mark.parametrize(
    ("only_first", "only_second", "n"), [(5, 0, 50), (9, 2, 100), (15, 5, 200), (1, 0, 20), (20, 5, 99)]
)
def test_few_discordant_pairs_have_the_p_value_of_mcnemars_exact_test(only_first, only_second, n):
    found = paired_test(*rights(n - only_first - only_second, only_first, only_second))
    exact = binomtest(only_first, only_first + only_second).pvalue
    assert found.p_value == pytest.approx(exact)
    assert (found.interval.low > 0) == (exact < 0.05)


def test_from_26_discordant_pairs_on_the_score_test_decides():
    assert paired_test(*rights(70, 20, 5)).test == "exact McNemar test"
    assert paired_test(*rights(70, 20, 6)).test == "paired score test"


def by_enumeration(gains):
    """The two-sided p-value of all signs of the gains."""
    sums = np.array([np.dot(signs, np.abs(gains)) for signs in product((-1, 1), repeat=len(gains))])
    return np.mean(np.abs(sums) >= abs(sum(gains)) - 1e-9)


def test_few_clusters_that_differ_are_tested_by_flipping_the_signs_of_whole_clusters():
    """Three captions of each image: the captions are no independent witnesses."""
    clusters = np.repeat(np.arange(60), 3)
    first = np.zeros(180)
    first[[0, 1, 2, 3, 4, 6, 9, 10]] = 1  # 3, 2, 1 and 2 captions of four images
    found = paired_test(first, np.zeros(180), clusters)
    assert found.test == "exact sign-flip test"
    assert found.p_value == pytest.approx(by_enumeration([3, 2, 1, 2])) == 0.125
    assert paired_test(first, np.zeros(180)).p_value < 0.01
    assert found.interval.low <= 0


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(-4, 4).filter(bool), min_size=1, max_size=9), st.integers(0, 60))
def test_scores_that_mostly_agree_are_tested_by_all_signs_of_the_others(gains, equal):
    gains = np.array([*gains, *[0] * equal]) / 4
    found = paired_test(gains, np.zeros(gains.size))
    assert found.p_value >= by_enumeration(gains[gains != 0]) - 1e-9
    assert sign_flip_p_value(np.abs(gains[gains != 0]), gains.sum()) == pytest.approx(by_enumeration(gains[gains != 0]))


def test_with_many_disagreements_it_agrees_with_the_exact_test():
    first, second = rights(3000, 560, 490, 950)
    assert discordant(first, second) == (560, 490)
    assert paired_test(first, second).p_value == pytest.approx(binomtest(560, 560 + 490).pvalue, rel=0.1)


def test_scores_that_are_no_numbers_are_refused():
    with pytest.raises(ValueError, match="finite"):
        paired_test([1.0, np.nan], [0.0, 1.0])


def test_for_many_real_scores_it_agrees_with_students_test():
    rng = np.random.default_rng(2)
    first, second = rng.normal(0.51, 0.1, 800), rng.normal(0.5, 0.1, 800)
    theirs = ttest_rel(first, second)
    ours = paired_test(first, second)
    assert ours.p_value == pytest.approx(theirs.pvalue, rel=0.05)
    assert ours.interval == pytest.approx(tuple(theirs.confidence_interval()), abs=3e-4)


def test_one_sample_and_one_cluster_say_nothing():
    for found in (paired_test([1], [0]), paired_test([1] * 30, [0] * 30, ["one image"] * 30)):
        assert found.difference == 1
        assert found.interval is None
        assert found.p_value == 1


def test_five_units_that_all_agree_are_too_few_and_six_are_not():
    five, six = paired_test([1] * 5, [0] * 5), paired_test([1] * 6, [0] * 6)
    assert five.interval is None
    assert five.p_value > 0.05
    assert six.interval.low > 0
    assert six.p_value < 0.05


def test_a_cluster_that_has_most_samples_says_nothing_however_many_there_are():
    clusters = [0] * 200 + list(range(1, 50))
    found = paired_test([1] * 249, [0] * 200 + [1] * 49, clusters)
    assert found.interval is None
    assert found.p_value > 0.3
    assert (found.n, found.n_clusters) == (249, 50)


def test_without_an_interval_the_p_value_separates_nothing():
    """Fifty images of one sample gain more than three images of many samples, which decide the mean and are too few."""
    clusters = [0] * 58 + [1] * 54 + [2] * 25 + list(range(3, 53))
    found = paired_test([0.12] * 137 + [0.2] * 50, [0] * 187, clusters)
    assert found.interval is None
    assert found.p_value >= 0.05


def test_copies_of_a_sample_in_one_cluster_change_nothing():
    rng = np.random.default_rng(0)
    first, second = rng.random((2, 80)) < 0.6
    once = paired_test(first, second)
    copied = paired_test(np.repeat(first, 5), np.repeat(second, 5), np.repeat([f"image{i}" for i in range(80)], 5))
    assert copied.p_value == pytest.approx(once.p_value)
    assert copied.interval == pytest.approx(once.interval)
    assert paired_test(np.repeat(first, 5), np.repeat(second, 5)).p_value < once.p_value
    assert (copied.n, copied.n_clusters, once.n_clusters) == (400, 80, 80)


def test_pairing_removes_the_difficulty_of_samples():
    difficulty = np.random.default_rng(0).random(800)
    found = paired_test(difficulty * 0.9 + 0.02, difficulty * 0.9)
    assert found.difference == pytest.approx(0.02)
    assert found.interval.low > 0.01
    assert found.p_value < 1e-6


def test_models_that_answer_alike_are_not_surely_equal():
    found = paired_test([1, 0, 1, 1] * 10, [1, 0, 1, 1] * 10)
    assert (found.difference, found.p_value) == (0, 1)
    assert found.interval.high == pytest.approx(-found.interval.low)
    assert 0.05 < found.interval.high < 0.15


def test_a_model_that_only_ever_wins_may_win_more_or_less():
    found = paired_test(*rights(380, 20, 0))
    assert found.interval.low < 0.035
    assert found.interval.high > 0.073, "as for Poisson counts: 20 may be 31 another time"


def alarms(n, disagreement):
    """How often equal models are told apart: exactly, over all counts of wins and losses."""
    counts = [(wins, losses) for wins in range(n + 1) for losses in range(n + 1 - wins)]
    told = [paired_test(*rights(n - w - lost, w, lost)).p_value < 0.05 for w, lost in counts]
    shares = [disagreement / 2, disagreement / 2, 1 - disagreement]
    masses = multinomial.pmf([(w, lost, n - w - lost) for w, lost in counts], n, shares)
    return float(masses[told].sum())


@pytest.mark.parametrize("n", [6, 8, 11, 14, 19, 25])
@pytest.mark.parametrize("disagreement", [0.1, 0.5, 0.9])
def test_with_few_discordant_pairs_equal_models_are_told_apart_in_at_most_one_case_of_twenty(n, disagreement):
    assert alarms(n, disagreement) <= 0.05


def test_with_more_discordant_pairs_equal_models_are_told_apart_one_time_in_twenty():
    assert 0.04 <= alarms(60, 0.9) <= 0.06


@pytest.mark.parametrize(("first", "second", "clusters"), [([], [], None), ([1], [1, 0], None), ([1], [0], [1, 2])])
def test_unpaired_samples_are_refused(first, second, clusters):
    with pytest.raises(ValueError, match="need"):
        paired_test(first, second, clusters)
