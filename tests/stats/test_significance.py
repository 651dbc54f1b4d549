"""Disagreements, Holm's correction and what can be detected, against their definitions."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eyechart.stats import (
    discordant,
    holm,
    normal_quantile,
    smallest_detectable_difference,
)


def test_discordant_counts_each_side():
    assert discordant([1, 1, 0, 0, 1], [1, 0, 0, 1, 0]) == (2, 1)
    with pytest.raises(ValueError, match="equal lengths"):
        discordant([1], [1, 0])


@settings(max_examples=60)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=7))
def test_holm_is_bonferroni_over_all_sets_that_a_hypothesis_is_part_of(p_values):
    """The closed test: a hypothesis falls only if every set of hypotheses with it falls."""
    sets = [s for size in range(1, len(p_values) + 1) for s in combinations(range(len(p_values)), size)]
    expected = [
        max(min(1.0, len(s) * min(p_values[j] for j in s)) for s in sets if i in s) for i in range(len(p_values))
    ]
    assert holm(p_values) == pytest.approx(expected)


def test_holm_steps_down_from_the_smallest():
    """5 x 0.005, 4 x 0.01, 3 x 0.03, then 2 x 0.04, which may not be smaller than the step before, and 0.2."""
    assert holm([0.01, 0.04, 0.03, 0.005, 0.2]) == pytest.approx([0.04, 0.09, 0.09, 0.025, 0.2])


def test_holm_of_nothing_is_nothing():
    assert holm([]) == []


@pytest.mark.parametrize("p_values", [[float("nan")], [1.1], [-0.1, 0.5]])
def test_holm_refuses_what_is_no_probability(p_values):
    with pytest.raises(ValueError, match="between 0 and 1"):
        holm(p_values)


@given(st.integers(50, 100_000), st.floats(0.01, 1))
def test_smallest_difference_solves_connors_sample_size(n, disagreement):
    difference = smallest_detectable_difference(n, disagreement)
    if difference is None:
        assert n * disagreement < 12
        return
    z_alpha, z_power = normal_quantile(0.975), normal_quantile(0.8)
    needed = (z_alpha * disagreement**0.5 + z_power * (disagreement - difference**2) ** 0.5) ** 2
    assert needed / difference**2 == pytest.approx(n, rel=1e-6)


def test_the_smallest_difference_is_found_as_often_as_promised():
    generator = np.random.default_rng(5)
    n, disagreement = 2000, 0.15
    difference = smallest_detectable_difference(n, disagreement, power=0.8)
    wins, losses = (disagreement + difference) / 2, (disagreement - difference) / 2
    counts = generator.multinomial(n, [wins, losses, 1 - disagreement], size=2000)
    found = np.mean((counts[:, 0] - counts[:, 1]) ** 2 > normal_quantile(0.975) ** 2 * counts[:, :2].sum(axis=1))
    assert found == pytest.approx(0.8, abs=0.03)


def test_too_few_samples_detect_nothing():
    assert smallest_detectable_difference(20, 0.05) is None
    assert smallest_detectable_difference(1000, 0.0) is None
    assert smallest_detectable_difference(1, 1.0) is None


@pytest.mark.parametrize("arguments", [(0, 0.1), (10, 1.5), (10, 0.1, 0.0), (10, 0.1, 0.05, 0.01)])
def test_impossible_designs_are_refused(arguments):
    with pytest.raises(ValueError, match="need"):
        smallest_detectable_difference(*arguments)
