"""Rank intervals and the models that cannot be told from the best: they say what the paired test says."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eyechart.stats import holm, p_values_against_best, paired_test, rank_intervals


def models(accuracies, n, seed=0):
    generator = np.random.default_rng(seed)
    return generator.random((len(accuracies), n)) < np.array(accuracies)[:, None]


def not_separable_from_best(benchmarks, clusters=(None,), level=0.95):
    """The models that the best does not significantly beat, under Holm's correction."""
    best, found = p_values_against_best(benchmarks[0], clusters[0], level)
    adjusted = dict(zip(found, holm(list(found.values())), strict=True))
    return [i == best or adjusted[i] >= 1 - level for i in range(len(benchmarks[0]))]


@settings(max_examples=150, deadline=None)
@given(
    st.integers(0, 2**32 - 1), st.integers(2, 60), st.floats(0.3, 1), st.booleans(), st.sampled_from([0.8, 0.95, 0.99])
)
def test_the_ranks_of_two_models_overlap_exactly_when_the_paired_test_does_not_separate_them(
    seed, n, better, clustered, level
):
    rng = np.random.default_rng(seed)
    scores = rng.random((2, n)) < np.array([[better], [0.4]])
    images = rng.integers(0, max(1, n // 2), n) if clustered else None
    found = paired_test(*scores, images, level=level)
    separate = found.interval is not None and not found.interval.low <= 0 <= found.interval.high

    first, second = rank_intervals([scores], [images], level)
    assert (first.high < second.low or second.high < first.low) == separate
    assert not_separable_from_best([scores], [images], level).count(True) == (1 if separate else 2)


def test_many_models_are_compared_by_the_same_test_under_holms_correction():
    scores = models([0.80, 0.76, 0.70, 0.5], 400, seed=3)
    best = int(np.argmax(scores.mean(axis=1)))
    others = [i for i in range(4) if i != best]
    adjusted = holm([paired_test(scores[best], scores[i]).p_value for i in others])
    marks = not_separable_from_best([scores])
    assert [marks[i] for i in others] == [p >= 0.05 for p in adjusted]
    assert marks[best]


def test_models_far_apart_have_one_rank_each():
    assert rank_intervals([models([0.5, 0.9, 0.7], 2000)]) == [(3, 3), (1, 1), (2, 2)]


def test_identical_models_may_have_any_rank():
    same = np.tile(models([0.6], 500), (3, 1))
    assert rank_intervals([same]) == [(1, 3)] * 3
    assert not_separable_from_best([same]) == [True] * 3


def test_three_samples_separate_nobody():
    assert rank_intervals([[[1, 1, 1], [0, 0, 0]]]) == [(1, 2), (1, 2)]
    assert not_separable_from_best([[[1, 1, 1], [0, 0, 0]]]) == [True, True]


def test_captions_of_one_image_are_one_witness():
    scores, images = [[1] * 20, [0] * 20], np.repeat(np.arange(4), 5)
    assert rank_intervals([scores]) == [(1, 1), (2, 2)]
    assert rank_intervals([scores], [images]) == [(1, 2), (1, 2)]


def test_a_suite_tells_more_than_each_benchmark():
    suite = [models([0.75, 0.70], 200, seed) for seed in range(20)]
    assert all(rank_intervals([benchmark])[1] == (1, 2) for benchmark in suite[:3])
    assert rank_intervals(suite) == [(1, 1), (2, 2)]


def test_benchmarks_count_alike_whatever_their_size():
    small, large = [[1] * 50, [0] * 50], [[0, 0] * 500, [1, 0] * 500]
    assert rank_intervals([small, large])[0] == (1, 1), "+1 on the small one outweighs -0.5 on the large"


def test_best_is_always_marked_and_worse_models_are_not():
    marks = not_separable_from_best([models([0.80, 0.795, 0.5, 0.3], 1000)])
    assert marks == [True, True, False, False]


def test_all_rank_intervals_hold_together():
    accuracies, possible = np.array([0.70, 0.70, 0.70, 0.66, 0.60]), [(1, 3)] * 3 + [(4, 4), (5, 5)]
    rng = np.random.default_rng(8)
    held = 0
    for _ in range(300):
        ranks = rank_intervals([rng.random((5, 400)) < accuracies[:, None]])
        held += all(low <= first and last <= high for (low, high), (first, last) in zip(ranks, possible, strict=True))
    assert held / 300 >= 0.93  # 95 % or more, less two standard errors


def test_one_model_is_the_best():
    assert rank_intervals([models([0.5], 10)]) == [(1, 1)]
    assert not_separable_from_best([models([0.5], 10)]) == [True]


@pytest.mark.parametrize("benchmarks", [[], [[[1, 0]], [[1], [0]]], [[]], [[[float("nan")]]], [[1, 0]]])
def test_what_is_no_score_matrix_is_refused(benchmarks):
    with pytest.raises(ValueError, match=r"benchmark|matrix"):
        rank_intervals(benchmarks)


def test_a_rank_needs_as_many_discordant_samples_as_the_paired_test():
    same = np.zeros((2, 100))
    five, six = same.copy(), same.copy()
    five[0, :5], six[0, :6] = 1, 1
    assert rank_intervals([five]) == [(1, 2), (1, 2)]
    assert rank_intervals([six]) == [(1, 1), (2, 2)]
    assert not_separable_from_best([five]) == [True, True]
    assert not_separable_from_best([six]) == [True, False]


def test_five_discordant_samples_over_a_suite_separate_nobody():
    parts = []
    for wins in (2, 2, 1):
        part = np.zeros((2, 60))
        part[0, :wins] = 1
        parts.append(part)
    assert rank_intervals(parts) == [(1, 2), (1, 2)]


def test_the_samples_of_many_small_benchmarks_add_up():
    suite = [models([0.9, 0.5], 30, seed=seed) for seed in range(20)]
    assert rank_intervals(suite) == [(1, 1), (2, 2)]
