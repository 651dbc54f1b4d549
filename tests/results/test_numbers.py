"""Numbers for people: per cent for fractions, both sides of an interval, halves rounded up as on the page."""

import pytest

from eyechart.results.views import fixed, is_fraction, level, shown, spent_lines, spread, with_unit
from eyechart.types import Metric


@pytest.mark.parametrize(
    ("metric", "text"),
    [
        (Metric(1.0, 0.603, 1.0), "-39.7 +0.0"),
        (Metric(0.5, 0.4, 0.6), "±10.0"),
        (Metric(0.5, 0.40001, 0.60002), "±10.0"),  # what reads the same is the same
        (Metric(0.0, 0.0, 0.05), "-0.0 +5.0"),
        (Metric(0.5), ""),
    ],
)
def test_an_interval_says_how_far_it_reaches_to_both_sides(metric, text):
    assert spread(metric) == text


def test_what_says_that_it_is_no_fraction_is_not_made_per_cent():
    assert is_fraction(Metric(0.25))
    assert not is_fraction(Metric(0.25, points=True))
    assert not is_fraction(Metric(1520.0))
    assert not is_fraction(Metric(-0.1))


def test_a_level_has_the_unit_of_its_metric():
    assert (with_unit(Metric(0.12345)), level(Metric(0.12345), 0.1)) == ("12.35 %", "10.00")
    assert (with_unit(Metric(1.5)), level(Metric(1.5), 0.1)) == ("1.5000", "0.1000")
    assert level(Metric(0.5), None) == ""


def test_the_usage_of_judges_is_shown_even_if_the_model_has_none():
    spent = {
        "model": {},
        "judges": {
            "first": {"requests": 2, "prompt_tokens": 1200, "cost": 0.5, "currency": "EUR"},
            "second": {"requests": 0, "tokens_of_answers": {"completion_tokens": 7}, "from_store": 3},
        },
    }

    assert spent_lines({"spent": spent}) == [
        "first: 2 requests, 1,200 prompt tokens, 0.5000 EUR",
        "second: 7 completion tokens (3 answers were stored before)",
    ]


def test_halves_go_up():
    assert fixed(0.125, 2) == "0.13"
    assert shown(0.0625, 1) == "6.3"
