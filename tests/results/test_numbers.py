"""Numbers for people: per cent for fractions, both sides of an interval, halves rounded up as on the page."""

import pytest

from eyechart.results.views import fixed, is_fraction, level, shown, spent_lines, spread, with_unit
from eyechart.types import Metric


@pytest.mark.parametrize(
    ("metric", "text"),
    [
        (Metric(1.0, 0.603, 1.0), "\N{MINUS SIGN}39.7 +0.0"),
        (Metric(0.5, 0.4, 0.6), "±10.0"),
        (Metric(0.5, 0.40001, 0.60002), "±10.0"),  # what reads the same is the same
        (Metric(0.0, 0.0, 0.05), "\N{MINUS SIGN}0.0 +5.0"),
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


def test_the_cost_of_the_benchmark_and_of_the_new_answers_stand_apart():
    tokens = {"tokens_of_answers": {"prompt_tokens": 20342, "completion_tokens": 477}, "answers": 60}
    prices = {"cost_of_answers": 0.0556, "currency": "EUR"}
    spent = {
        "model": {"asked": 2, "requests": 3, "prompt_tokens": 1680, "cost": 0.0017, **tokens, **prices},
        "judges": {
            "cached": {"asked": 0, "requests": 0, "cost": 0.0, **tokens, **prices},
            "unpriced": {"asked": 0, "requests": 0, "unpriced": True, **tokens},
            "local": {"asked": 60, "requests": 0, **tokens},
            "silent": {"asked": 0, "requests": 0, "tokens_of_answers": {}},
        },
    }
    new = "prompt tokens 1,680, completion tokens 0"
    whole = "whole benchmark: answers 60, prompt tokens 20,342, completion tokens 477"

    assert spent_lines({"spent": spent}) == [
        f"model: {whole}, cost 0.0556 EUR; new in this run: requests 3, {new}, cost 0.0017 EUR",
        f"cached: {whole}, cost 0.0556 EUR; new in this run: nothing, all is cached",
        f"unpriced: {whole}; new in this run: nothing, all is cached",
        f"local: {whole}; new in this run: answers 60",
        "For the cost, give the prices of tokens: --prices FILE.",
    ]


def test_halves_go_up():
    assert fixed(0.125, 2) == "0.13"
    assert shown(0.0625, 1) == "6.3"
