"""Closed-form intervals: against their formulas, at the edges, and by their properties."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from eyechart.metrics.agreement import mean_ranks, spearman
from eyechart.stats import (
    Interval,
    correlation_interval,
    mean_interval,
    mean_recall_interval,
    normal_quantile,
    proportion,
    student_quantile,
)
from eyechart.stats.intervals import _influences, cluster_index


@given(n=st.integers(200, 100_000), share=st.floats(0, 1), level=st.floats(0.5, 0.999))
def test_a_proportions_interval_is_agresti_and_coulls(n, share, level):
    successes = round(share * n)
    z = scipy_stats.norm.ppf(0.5 + level / 2)
    middle = (successes + z**2 / 2) / (n + z**2)
    half = z * (middle * (1 - middle) / (n + z**2)) ** 0.5
    expected = (max(0, middle - half) if successes else 0, min(1, middle + half) if successes < n else 1)
    assert proportion(successes, n, level) == pytest.approx(expected, abs=1e-4)


def test_a_proportion_touches_the_edge_exactly():
    assert proportion(0, 20).low == 0.0
    assert proportion(20, 20).high == 1.0
    assert proportion(0, 20).high > 0.1


@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_a_proportion_lies_in_its_interval(counts):
    successes, n = counts
    low, high = proportion(successes, n)
    assert 0 <= low <= successes / n <= high <= 1
    assert proportion(n - successes, n) == pytest.approx((1 - high, 1 - low))


def test_half_widths_that_tables_hide():
    assert proportion(0.75 * 50_000, 50_000).half_width == pytest.approx(0.0038, abs=1e-4)
    assert proportion(947, 1000).half_width == pytest.approx(0.014, abs=1e-3)


@pytest.mark.parametrize(("successes", "n"), [(1, 0), (-1, 5), (6, 5), (float("nan"), 5)])
def test_a_proportion_refuses_impossible_counts(successes, n):
    with pytest.raises(ValueError, match="successes"):
        proportion(successes, n)


@pytest.mark.parametrize("level", [0, 1, 95])
def test_a_level_is_a_fraction(level):
    with pytest.raises(ValueError, match="level"):
        proportion(1, 2, level)


@given(st.floats(1e-9, 1 - 1e-9))
def test_normal_quantile_equals_scipy(probability):
    assert normal_quantile(probability) == pytest.approx(scipy_stats.norm.ppf(probability), abs=1e-9)


@pytest.mark.parametrize("probability", [0.005, 0.025, 0.05, 0.3, 0.5, 0.9, 0.975, 0.995])
@pytest.mark.parametrize("degrees", [4, 4.5, 7.3, 10, 100, 50_000])
def test_student_quantile_is_close_to_scipy(probability, degrees):
    expected = scipy_stats.t.ppf(probability, degrees)
    assert student_quantile(probability, degrees) == pytest.approx(expected, rel=0.003, abs=1e-12)


def test_student_quantile_refuses_what_it_does_not_know():
    with pytest.raises(ValueError, match="degrees"):
        student_quantile(0.975, 0.5)


@given(st.sampled_from([0.9, 0.95, 0.975, 0.025]), st.floats(1, 4))
def test_student_quantile_of_few_degrees_is_within_a_percent(probability, degrees):
    expected = scipy_stats.t.ppf(probability, degrees)
    assert student_quantile(probability, degrees) == pytest.approx(expected, rel=0.01)


# --------------------------------------------------------------------------------------------------- means


@given(st.lists(st.integers(0, 1), min_size=1, max_size=300), st.booleans())
def test_rights_and_wrongs_that_stand_alone_give_a_proportion(rows, named):
    clusters = [f"image{i}" for i in range(len(rows))] if named else None
    assert mean_interval(rows, clusters) == proportion(sum(rows), len(rows))


def test_rows_that_always_agree_count_once_per_cluster():
    images = np.array([1, 0, 1, 1, 0, 1, 0, 0] * 50)
    five_copies = mean_interval(np.repeat(images, 5), np.repeat(np.arange(images.size), 5))
    assert five_copies == pytest.approx(proportion(images.sum(), images.size), abs=2e-3)


def test_rows_that_never_agree_more_than_by_chance_count_each():
    rows = np.random.default_rng(0).random(2000) < 0.7
    clustered = mean_interval(rows, np.repeat(np.arange(400), 5))
    assert clustered.half_width == pytest.approx(proportion(rows.sum(), 2000).half_width, rel=0.05)


@pytest.mark.parametrize("hit", [0, 1])
def test_all_misses_or_all_hits_count_the_clusters(hit):
    found = mean_interval(np.full(200, hit), np.repeat(np.arange(40), 5))
    assert found.half_width == pytest.approx(proportion(40 * hit, 40).half_width, rel=0.1)


def test_width_does_not_jump_beside_the_edge():
    images, one_hit = np.repeat(np.arange(200), 5), np.zeros(1000)
    none = mean_interval(one_hit, images)
    one_hit[0] = 1
    assert mean_interval(one_hit, images).high > 0.5 * none.high


@pytest.mark.parametrize("sizes", [[5], [30, 1, 1], [200] + [1] * 49, [50] + [1] * 50, [20] * 4])
def test_few_clusters_or_one_that_has_most_rows_are_too_few(sizes):
    rows = np.repeat(np.arange(len(sizes)), sizes)
    assert mean_interval(rows % 2, rows) is None


def test_five_clusters_are_enough():
    assert mean_interval([1, 0, 1, 1, 0] * 5, np.repeat(np.arange(5), 5)).half_width > 0.2


def test_fractional_scores_are_narrower_than_rights_and_wrongs():
    generator = np.random.default_rng(0)
    scores = 0.5 + 0.1 * generator.standard_normal(500).clip(-3, 3)
    expected = 1.96 * 0.1 / np.sqrt(500)
    assert mean_interval(scores).half_width == pytest.approx(expected, rel=0.1)


def test_scores_may_have_another_largest_value():
    scores = np.random.default_rng(0).random(60)
    assert mean_interval(10 * scores, upper=10) == pytest.approx(tuple(10 * end for end in mean_interval(scores)))


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([0, 0.25, 0.5, 1]), st.integers(0, 12)), min_size=1, max_size=80),
    st.sampled_from([0.8, 0.95, 0.99]),
)
def test_the_interval_holds_the_mean_and_lies_in_the_unit_interval(rows, level):
    values, clusters = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    found = mean_interval(values, clusters, level)
    if found is not None:
        assert 0 <= found.low <= values.mean() + 1e-12
        assert values.mean() - 1e-12 <= found.high <= 1


@pytest.mark.parametrize(
    ("values", "clusters"),
    [([], None), ([1, 0], [1]), ([1.5], None), ([-0.1], None), ([float("nan")], None), ([[1]], None)],
)
def test_what_are_no_scores_is_refused(values, clusters):
    with pytest.raises(ValueError, match=r"need|finite"):
        mean_interval(values, clusters)


# -------------------------------------------------------------------------------------------------- recall


def test_mean_recall_of_equal_classes_with_equal_recall_is_a_proportion():
    correct = np.tile([1, 1, 1, 0], 250)
    labels = np.repeat(np.arange(10), 100)
    assert mean_recall_interval(correct, labels) == pytest.approx(proportion(750, 1000), abs=1e-3)


def test_mean_recall_of_one_class_is_a_proportion():
    assert mean_recall_interval([1] * 30 + [0] * 10, ["cat"] * 40) == pytest.approx(proportion(30, 40), abs=3e-3)


def test_a_rare_class_decides_the_width():
    labels = np.array([0] * 1000 + [1] * 10)
    correct = np.concatenate([np.tile([1, 0], 500), np.tile([1, 0], 5)])
    expected = proportion(5, 10).half_width / 2
    assert mean_recall_interval(correct, labels).half_width == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("value", [0, 1])
def test_perfect_and_hopeless_models_keep_a_width(value):
    labels = np.arange(60) % 20
    low, high = mean_recall_interval(np.full(60, value), labels)
    assert high - low == pytest.approx(proportion(60 * value, 60).half_width * 2, rel=0.2)


def test_classes_that_tell_no_more_than_four_samples_are_too_few():
    assert mean_recall_interval([1, 0, 1, 1], [0, 0, 1, 1]) is None
    assert mean_recall_interval([1] * 201, [0] * 200 + [1]) is None
    assert mean_recall_interval([1] * 104, [0] * 100 + [1, 1, 2, 2]) is not None


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 6)), min_size=1, max_size=80))
def test_mean_recall_interval_holds_its_estimate(rows):
    correct, labels = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    estimate = np.mean([correct[labels == c].mean() for c in np.unique(labels)])
    found = mean_recall_interval(correct, labels)
    if found is not None:
        assert 0 <= found.low <= estimate + 1e-12
        assert estimate - 1e-12 <= found.high <= 1


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


# --------------------------------------------------------------------------------------------- correlation


def test_a_correlation_of_normal_pairs_has_about_fishers_interval():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(400)
    y = 0.6 * x + 0.8 * rng.standard_normal(400)
    fisher = scipy_stats.pearsonr(x, y).confidence_interval()
    found = correlation_interval(x, y)
    assert found == pytest.approx(tuple(fisher), abs=0.02)
    assert found.half_width >= (fisher.high - fisher.low) / 2 - 1e-12


def test_heavy_tails_widen_it():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 400)) * np.sqrt(5 / rng.chisquare(5, 400))
    fisher = scipy_stats.pearsonr(x, y).confidence_interval()
    assert correlation_interval(x, y).half_width > 1.2 * (fisher.high - fisher.low) / 2


def test_that_of_ranks_depends_on_ranks_alone():
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((2, 50))
    y = x + y
    assert correlation_interval(np.exp(x), y**3, of_ranks=True) == correlation_interval(x, y, of_ranks=True)
    assert correlation_interval(x, y, of_ranks=True).low < scipy_stats.spearmanr(x, y).statistic


def test_eight_pairs_have_an_interval():
    first, second = [1, 2, 3, 4, 5, 6, 7, 8], [2, 1, 4, 3, 6, 5, 8, 7]

    assert correlation_interval(first, second) is not None
    assert correlation_interval(first[:7], second[:7]) is None


def test_a_correlation_takes_numbers_of_any_kind():
    first, second = np.arange(12) % 5, np.arange(12) % 3 == 0

    expected = correlation_interval(first.astype(float), second.astype(float))
    assert correlation_interval(first, second) == correlation_interval(second, first) == expected is not None


def test_it_turns_round_with_the_sign():
    rng = np.random.default_rng(2)
    x, y = rng.standard_normal((2, 30))
    low, high = correlation_interval(x, y, of_ranks=True)
    assert correlation_interval(x, -y, of_ranks=True) == pytest.approx((-high, -low))


@pytest.mark.parametrize(
    ("first", "second"), [(range(7), [3, 1, 4, 1, 5, 9, 2]), (range(20), range(20)), (range(20), [1] * 20)]
)
def test_few_pairs_a_perfect_correlation_and_a_constant_have_no_interval(first, second):
    assert correlation_interval(list(first), list(second)) is None


def test_an_interval_is_a_pair():
    low, high = Interval(0.1, 0.3)
    assert (low, high) == (0.1, 0.3)
    assert Interval(0.1, 0.3).half_width == pytest.approx(0.1)


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint8, np.uint64, str, object])
def test_clusters_are_numbered_alike_whatever_names_them(kind):
    names = np.array([7, 3, 3, 9, 7, 7, 3, 0, 9, 12, 30, 30])

    index, sizes = cluster_index(names.astype(kind), names.size)

    order = np.unique(names.astype(kind))
    assert list(order[index]) == list(names.astype(kind))
    assert list(sizes) == [list(names.astype(kind)).count(name) for name in order]
    assert np.bincount(index).size == order.size


@pytest.mark.parametrize("rho", [0.0, 0.6, 0.95])
@pytest.mark.parametrize("rounded", [False, True])
def test_the_influence_of_a_pair_on_a_rank_correlation_is_that_of_leaving_it_out(rho, rounded):
    rng = np.random.default_rng(5)
    first, noise = rng.standard_normal((2, 300))
    second = rho * first + np.sqrt(1 - rho**2) * noise
    if rounded:
        first, second = np.round(first * 2), np.round(second * 2)
    value = spearman(first, second)
    without = np.array([spearman(np.delete(first, i), np.delete(second, i)) for i in range(300)])
    found = _influences(mean_ranks(first), mean_ranks(second), value, of_ranks=True)
    expected = 299 * (value - without)
    assert found - found.mean() == pytest.approx(expected - expected.mean(), abs=0.05)
