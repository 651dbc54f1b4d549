"""What the intervals promise, by simulation. `make coverage` measures all shapes with many more draws."""

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from eyechart.stats import holm, mean_interval, p_values_against_best, proportion

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "benchmarks"))
from coverage_draws import DRAWN
from coverage_judges import JUDGED
from coverage_metrics import METRICS
from coverage_pairs import PAIRED
from coverage_shapes import MEANS, measure

DRAWS = 400
SHAPES = {
    f"{shape.interval}: {shape.name}": shape
    for family in (*MEANS, *JUDGED, *METRICS, *PAIRED, *DRAWN)
    for shape in family()
}
HOLD = [
    "mean_interval, clusters: 5 of 20, p = 0.5, correlation 0.3",
    "mean_interval, clusters: 60 of 3 to 7, p = 0.9, correlation 0.3",
    "mean_interval, clusters: 1 of 20, 80 of 1, p = 0.8, correlation 0.3",
    "mean_interval, clusters: 297 of 1 to 64, p = 0.9, correlation 0.9",
    "mean_interval: reciprocal ranks, n = 20",
    "mean_interval: 70 % right, else fifths, n = 200",
    "mean_recall_interval: (100, 2, 2), recalls 0.9 0.5 0.5",
    "mean_recall_interval: (100, 3, 3), recalls 0.7",
    "mean_recall_interval: (200, 5), recalls 0.97 0.32",
    "mean_recall_interval: 80 of 1, recalls beta(4, 2)",
    "mean_recall_interval: 400 of 3, recalls beta(4, 2)",
    "judged: n = 200, 1 judges x 3 verdicts, 1 answers each, leniency 0",
    "judged: n = 200, 3 judges x 1 verdicts, 1 answers each, leniency 0.3",
    "average_precision_interval: 50 images, 3 classes of 20 %",
    "average_precision_interval: 100 images, 50 classes of 2 %",
    "correlation_interval: Pearson, ratings 0 to 5, rho = 0.9, n = 50",
    "correlation_interval: Spearman, normal, rho = 0.5, n = 20",
    "paired_test: normal differences, n = 20, mean 0.1",
    "paired_test: rights and wrongs, n = 400, only first right 0.05, only second 0.0",
    "paired_test: rights and wrongs, clusters 60 of 3 to 7, correlation 0.3",
    "paired_average_precision: 50 images, 3 classes of 20 %",
    "average_precision_interval: 60 images, 8 classes of 3 to 30 %, correlation 0.8",
    "few-shot accuracy: 2 shots, 200 test images, 5 classes, 3 draws",
    "few-shot pair: 2 shots, 1000 test images, 5 classes, 5 draws",
    "few-shot pair: 10 shots, 200 test images, 5 classes, 3 draws",
    "redrawn gallery: image_retrieval_recall@1, 30 images x 5 captions",
    "redrawn gallery, pair: text_retrieval_recall@1, 30 images x 5 captions",
]


@pytest.mark.parametrize("name", HOLD)
def test_an_interval_holds_the_truth_nineteen_times_in_twenty(name):
    row = measure(SHAPES[name], DRAWS, seed=1)
    assert row.covers >= 0.92  # 95 %, less 2.7 standard errors
    assert row.too_few == 0
    assert row.false_alarms is None or row.false_alarms <= 0.08


@pytest.mark.parametrize(
    "name",
    [
        "mean_interval, clusters: 1 of 200, 49 of 1, p = 0.5, correlation 0.3",
        "mean_recall_interval: (200, 1), recalls 0.9",
        "paired_test: rights and wrongs, clusters 1 of 200, 49 of 1, correlation 0.5",
        "paired_test: rights and wrongs, n = 5, only first right 0.3, only second 0.3",
        "few-shot accuracy: 2 shots, 1000 test images, 5 classes, 2 draws",
        "few-shot pair: 2 shots, 1000 test images, 5 classes, 1 draws",
    ],
)
def test_where_no_interval_can_hold_none_is_given(name):
    assert measure(SHAPES[name], 50, seed=1).too_few == 1


@pytest.mark.parametrize("n", [2, 3, 5, 10, 20, 50, 200, 1000])
def test_a_proportions_interval_covers_93_per_cent_whatever_the_proportion(n):
    truths = np.concatenate([np.geomspace(1e-4, 0.05, 100), np.linspace(0.05, 0.5, 400)])
    hits = np.arange(n + 1)
    low, high = np.array([proportion(int(h), n) for h in hits]).T
    held = (low <= truths[:, None]) & (truths[:, None] <= high)
    covers = (binom.pmf(hits, n, truths[:, None]) * held).sum(axis=1)
    assert covers.min() >= 0.93
    if n >= 200:
        assert covers[n * truths >= 10].max() <= 0.975


def test_ignoring_the_clusters_would_not_cover():
    rng = np.random.default_rng(2)
    rows = np.repeat(rng.beta(0.5, 0.5, (500, 100)), 5, axis=1)
    intervals = [mean_interval(rng.random(500) < rates) for rates in rows]
    assert np.mean([low <= 0.5 <= high for low, high in intervals]) < 0.85


def test_the_truly_best_model_stays_among_the_best():
    rng = np.random.default_rng(9)
    accuracies = np.array([0.71] + [0.70] * 9)[:, None]
    kept = []
    for _ in range(200):
        _, found = p_values_against_best(rng.random((10, 500)) < accuracies)
        kept.append(dict(zip(found, holm(list(found.values())), strict=True)).get(0, 1.0) >= 0.05)
    assert np.mean(kept) >= 0.95
