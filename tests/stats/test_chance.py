"""Chance levels against exact fractions and shuffles."""

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eyechart.stats import chance_accuracy, chance_hit_rate, chance_normalised


@given(st.integers(1, 300).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(0, 320))))
def test_hit_rate_equals_the_exact_fraction(case):
    gallery, positives, k = case
    k_in = min(k, gallery)
    exact = 1 - Fraction(comb(gallery - positives, k_in), comb(gallery, k_in))
    assert chance_hit_rate(gallery, positives, k) == pytest.approx(float(exact), rel=1e-12)


def test_hit_rate_of_a_huge_gallery_does_not_overflow():
    assert chance_hit_rate(25_010, 5, 10) == pytest.approx(0.0019978, rel=1e-3)
    assert chance_hit_rate(10**9, 1, 1) == pytest.approx(1e-9, rel=1e-12)


def test_hit_rate_is_what_shuffling_gives():
    generator = np.random.default_rng(0)
    orders = generator.permuted(np.tile(np.arange(20), (20_000, 1)), axis=1)
    assert chance_hit_rate(20, 3, 4) == pytest.approx((orders[:, :4] < 3).any(axis=1).mean(), abs=0.01)


def test_accuracy_is_k_of_n():
    assert chance_accuracy(1000) == 0.001
    assert chance_accuracy(10, k=5) == 0.5
    assert chance_accuracy(3, k=5) == 1.0


def test_normalising_puts_chance_at_zero():
    assert chance_normalised(0.5, 0.5) == 0
    assert chance_normalised(1.0, 0.1) == 1
    assert chance_normalised(0.0, 0.5) == -1


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        (chance_hit_rate, (5, 6, 1)),
        (chance_hit_rate, (5, 1, -1)),
        (chance_accuracy, (0,)),
        (chance_normalised, (1, 1)),
    ],
)
def test_impossible_settings_are_refused(call, arguments):
    with pytest.raises(ValueError, match=r"must|need"):
        call(*arguments)
