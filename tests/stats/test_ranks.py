"""Rank intervals and the models that cannot be told from the best."""

import numpy as np
import pytest
from scipy.stats import norm

from eyechart.stats import not_separable_from_best, rank_intervals
from eyechart.stats.ranks import _pairwise_z


def models(accuracies, n, seed=0):
    generator = np.random.default_rng(seed)
    return generator.random((len(accuracies), n)) < np.array(accuracies)[:, None]


def test_models_far_apart_have_one_rank_each():
    assert rank_intervals([models([0.5, 0.9, 0.7], 2000)]) == [(3, 3), (1, 1), (2, 2)]


def test_identical_models_may_have_any_rank():
    same = np.tile(models([0.6], 500), (3, 1))
    assert rank_intervals([same]) == [(1, 3)] * 3
    assert not_separable_from_best([same]) == [True] * 3


def test_three_samples_separate_nobody():
    assert rank_intervals([[[1, 1, 1], [0, 0, 0]]]) == [(1, 2), (1, 2)]


def test_the_statistic_is_mcnemars():
    first, second = np.array([1] * 12 + [0] * 5 + [1] * 30), np.array([0] * 12 + [1] * 5 + [1] * 30)
    z = _pairwise_z([np.stack([first, second])], None)
    assert z[0, 1] == pytest.approx((12 - 5) / (12 + 5) ** 0.5)
    assert z[1, 0] == -z[0, 1]
    assert 2 * norm.sf(z[0, 1]) == pytest.approx(0.0896, abs=1e-4)


def test_captions_of_one_image_are_one_witness():
    first = np.repeat(np.arange(8) < 8, 5)
    scores, images = np.stack([first, ~first]), np.repeat(np.arange(8), 5)
    assert _pairwise_z([scores], None)[0, 1] == pytest.approx(40**0.5)
    assert _pairwise_z([scores], [images])[0, 1] == pytest.approx(8**0.5)


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


def test_one_model_is_the_best():
    assert rank_intervals([models([0.5], 10)]) == [(1, 1)]
    assert not_separable_from_best([models([0.5], 10)]) == [True]


@pytest.mark.parametrize("benchmarks", [[], [[[1, 0]], [[1], [0]]], [[]], [[[float("nan")]]], [[1, 0]]])
def test_what_is_no_score_matrix_is_refused(benchmarks):
    with pytest.raises(ValueError, match=r"benchmark|matrix"):
        rank_intervals(benchmarks)
