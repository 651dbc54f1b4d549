"""Agreement of judges: against sklearn, and against the examples that Krippendorff published."""

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from eyechart.stats import Interval, cohen_kappa, krippendorff_alpha, student_quantile, widen_for_judges
from eyechart.stats.judge_agreement import between_judges

NONE = np.nan
FOUR = np.array([  # Krippendorff (2011), Computing Krippendorff's alpha-reliability, example C
    [1, 2, 3, 3, 2, 1, 4, 1, 2, NONE, NONE, NONE],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NONE, 3],
    [NONE, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NONE],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NONE],
])  # fmt: skip


def test_alpha_is_that_of_the_published_examples():
    two = [[0, 1, 0, 0, 0, 0, 0, 0, 1, 0], [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]]

    assert krippendorff_alpha(two).value == pytest.approx(0.095, abs=5e-4)
    assert krippendorff_alpha(FOUR).value == pytest.approx(0.743, abs=5e-4)
    assert krippendorff_alpha(FOUR, graded=True).value == pytest.approx(0.849, abs=5e-4)
    assert krippendorff_alpha(FOUR).n == 11  # one unit has a single verdict


@pytest.mark.parametrize("graded", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_kappa_is_sklearns(seed, graded):
    rng = np.random.default_rng(seed)
    first = np.concatenate([np.arange(5), rng.integers(0, 5, 80)])
    second = np.where(rng.random(85) < 0.6, first, rng.integers(0, 5, 85))

    found = cohen_kappa(first / 4, second / 4, graded=graded)

    assert found.value == pytest.approx(cohen_kappa_score(first, second, weights="quadratic" if graded else None))
    assert found.interval.low < found.value < found.interval.high


def test_missing_verdicts_are_left_out_and_constant_ones_tell_nothing():
    assert cohen_kappa([1, 0, NONE, 1], [1, 0, 1, NONE]).n == 2
    assert cohen_kappa([1, 1, 1], [1, 1, 1]).value is None
    assert krippendorff_alpha([[1, 1], [1, 1]]).value is None
    assert krippendorff_alpha([[NONE, 1], [1, NONE]]).n == 0
    assert cohen_kappa([0, 1, 1], [0, 1, 0]).interval is None  # too few


def test_clusters_make_the_interval_wider():
    rng = np.random.default_rng(1)
    first = np.repeat(rng.integers(0, 2, 30), 8)
    second = np.repeat(rng.integers(0, 2, 30), 8)
    second = np.where(np.repeat(rng.random(30) < 0.7, 8), first, second)

    alone, together = cohen_kappa(first, second), cohen_kappa(first, second, np.repeat(np.arange(30), 8))

    assert together.value == alone.value
    assert together.interval.half_width > 1.5 * alone.interval.half_width


def test_grades_may_be_any_numbers():
    rng = np.random.default_rng(3)
    first = rng.normal(5, 2, 3000)
    second = first + rng.normal(0, 1, 3000)

    kappa, alpha = cohen_kappa(first, second, graded=True), krippendorff_alpha([first, second], graded=True)

    expected = np.mean((first[:, None] - second[None, :]) ** 2)
    assert kappa.value == pytest.approx(1 - np.mean((first - second) ** 2) / expected)
    assert alpha.value == pytest.approx(kappa.value, abs=1e-3)
    assert 0.006 < kappa.interval.half_width < 0.009  # Fisher: 1.96 * (1 - value**2) / sqrt(n)
    assert kappa.interval.low < 1 - 1 / (2 * 4 + 1) < kappa.interval.high


def test_judges_who_never_disagreed_may_do_so_once():
    verdicts = np.arange(40) % 2

    found = cohen_kappa(verdicts, verdicts)

    assert found.value == 1
    assert found.interval.high == 1
    assert 0.6 < found.interval.low < 0.95


@pytest.mark.parametrize(("judges", "majority"), [(3, 1.5), (4, 4.0), (5, 1.5), (6, 4.0)])
def test_an_even_panel_adds_more_variance_than_an_odd_one(judges, majority):
    verdicts = np.random.default_rng(judges).random((judges, 5000)) < np.linspace(0.57, 0.63, judges)[:, None]
    interval = Interval(0.6, 0.6)
    extra = between_judges(verdicts) * (1 + majority / judges) / judges
    half = student_quantile(0.975, judges - 1) * extra**0.5
    assert widen_for_judges(interval, verdicts).half_width == pytest.approx(half)


def test_judges_that_lie_apart_widen_the_interval_and_noise_alone_does_not():
    rng = np.random.default_rng(0)
    noise = rng.random((3, 4000)) < 0.5
    lenient = noise.copy()
    lenient[0] |= rng.random(4000) < 0.4
    interval = Interval(0.45, 0.55)

    assert between_judges(noise) < 1e-4
    assert widen_for_judges(interval, noise[:1]) == interval
    assert widen_for_judges(interval, lenient).half_width > 2 * interval.half_width
    assert widen_for_judges(interval, lenient[:2]) is None  # two cannot show how far others would lie apart
