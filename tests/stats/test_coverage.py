"""What the intervals and tests promise, by simulation: 95 % cover, 5 % false alarms."""

import numpy as np
import pytest

from eyechart.stats import (
    average_precision_interval,
    bootstrap_ratio,
    clustered_proportion,
    mcnemar_exact,
    mcnemar_mid_p,
    mean_average_precision,
    mean_recall_interval,
    not_separable_from_best,
    paired_bootstrap,
    rank_intervals,
    wilson,
)


def covers(interval, truth):
    return interval.low <= truth <= interval.high


@pytest.mark.parametrize(("n", "p"), [(711, 0.7), (1000, 0.947), (400, 0.3)])
def test_wilson_covers(n, p):
    hits = np.random.default_rng(0).binomial(n, p, size=6000)
    assert 0.93 <= np.mean([covers(wilson(int(h), n), p) for h in hits]) <= 0.97


@pytest.mark.parametrize("correlation", [0.0, 0.3, 0.9])
@pytest.mark.parametrize(("clusters", "p"), [(60, 0.5), (200, 0.8), (500, 0.1)])
def test_clustered_proportion_covers(clusters, p, correlation):
    generator = np.random.default_rng(1)
    outcomes = []
    for _ in range(1500):
        sizes = generator.integers(3, 8, clusters)
        # Beta-binomial clusters: `correlation` is that of two rows of one cluster.
        rate = p if not correlation else _beta(generator, p, correlation, clusters)
        outcomes.append(covers(clustered_proportion(generator.binomial(sizes, rate), sizes), p))
    assert 0.93 <= np.mean(outcomes) <= 0.97


def _beta(generator, p, correlation, size):
    strength = (1 - correlation) / correlation
    return generator.beta(p * strength, (1 - p) * strength, size)


def test_ignoring_the_clusters_would_not_cover():
    generator = np.random.default_rng(2)
    hits = generator.binomial(5, _beta(generator, 0.5, 0.5, (2000, 100))).sum(axis=1)
    assert np.mean([covers(wilson(int(h), 500), 0.5) for h in hits]) < 0.85


@pytest.mark.parametrize(
    "sizes",
    [np.full(100, 10), np.full(400, 3), np.array([1, 2, 3, 5, 10, 20, 50, 100] * 4), np.ones(80, int)],
)
def test_mean_recall_covers(sizes):
    generator = np.random.default_rng(3)
    recalls = generator.beta(4, 2, sizes.size)
    labels = np.repeat(np.arange(sizes.size), sizes)
    rounds = [generator.random(labels.size) < recalls[labels] for _ in range(2000)]
    covered = np.mean([covers(mean_recall_interval(correct, labels), recalls.mean()) for correct in rounds])
    assert 0.93 <= covered <= 0.975, "single samples hide the spread of a class: a little wide is right"


def test_average_precision_covers():
    generator = np.random.default_rng(4)
    estimates, intervals = [], []
    for seed in range(400):
        targets = generator.random((300, 5)) < 0.1
        scores = generator.standard_normal((300, 5)) + 1.5 * targets
        estimates.append(mean_average_precision(scores, targets))
        intervals.append(average_precision_interval(scores, targets, rounds=200, seed=seed))
    assert 0.93 <= np.mean([covers(interval, np.mean(estimates)) for interval in intervals]) <= 0.97


@pytest.mark.parametrize("true_difference", [0.0, 0.04])
def test_the_paired_bootstrap_covers_and_rejects_a_true_null_one_time_in_twenty(true_difference):
    generator = np.random.default_rng(5)
    disagreement = 0.2
    wins = (disagreement + true_difference) / 2
    results = []
    for seed in range(3000):
        draw = generator.random(400)
        results.append(paired_bootstrap(draw < wins, draw > 1 - disagreement + wins, rounds=800, seed=seed))
    assert 0.93 <= np.mean([covers(result.interval, true_difference) for result in results]) <= 0.97
    rejected = np.mean([result.p_value < 0.05 for result in results])
    assert 0.04 <= rejected <= 0.06 if true_difference == 0 else rejected > 0.3


def test_the_clustered_paired_bootstrap_rejects_a_true_null_one_time_in_twenty():
    generator = np.random.default_rng(6)
    images = np.repeat(np.arange(100), 5)
    rejections, naive = [], []
    for seed in range(2000):
        image_effect = generator.standard_normal((2, 100, 1))
        first, second = (image_effect + generator.standard_normal((2, 100, 5)) > 0).reshape(2, 500)
        rejections.append(paired_bootstrap(first, second, images, rounds=600, seed=seed).p_value < 0.05)
        naive.append(paired_bootstrap(first, second, rounds=600, seed=seed).p_value < 0.05)
    assert 0.04 <= np.mean(rejections) <= 0.06
    assert np.mean(naive) > 0.15, "captions of one image are not independent"


def test_a_bootstrap_of_few_units_covers():
    generator = np.random.default_rng(10)
    samples = generator.standard_normal((1500, 12))
    covered = np.mean([covers(bootstrap_ratio(x, rounds=600, seed=i), 0) for i, x in enumerate(samples)])
    assert 0.93 <= covered <= 0.97, "plain percentiles would cover 91 %"


def test_mcnemar_rejects_a_true_null_one_time_in_twenty_or_less():
    splits = np.random.default_rng(7).multinomial(1000, [0.1, 0.1, 0.8], size=6000)[:, :2]
    mid = np.mean([mcnemar_mid_p(int(b), int(c)) < 0.05 for b, c in splits])
    exact = np.mean([mcnemar_exact(int(b), int(c)) < 0.05 for b, c in splits])
    assert 0.04 <= mid <= 0.06
    assert 0.02 <= exact <= mid


def test_all_rank_intervals_hold_together():
    generator = np.random.default_rng(8)
    accuracies = np.array([0.70, 0.70, 0.70, 0.66, 0.60])
    possible = [{1, 2, 3}] * 3 + [{4}, {5}]
    held = 0
    for _ in range(1000):
        ranks = rank_intervals([generator.random((5, 400)) < accuracies[:, None]])
        held += all(low <= min(p) and max(p) <= high for (low, high), p in zip(ranks, possible, strict=True))
    assert held / 1000 >= 0.95


def test_the_truly_best_model_stays_among_the_best():
    generator = np.random.default_rng(9)
    accuracies = np.array([0.71] + [0.70] * 9)[:, None]
    kept = [not_separable_from_best([generator.random((10, 500)) < accuracies])[0] for _ in range(1500)]
    assert np.mean(kept) >= 0.95
