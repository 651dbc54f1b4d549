"""Answers about tables, and values written as text."""

import pytest

from eyechart.metrics.answers import same_amount, same_statement, same_values
from eyechart.metrics.cell_values import numbers, only_number, read_literal, unfenced


@pytest.mark.parametrize(
    ("said", "target", "relaxed", "exact"),
    [
        ("1000", "$1,000", True, True),
        ("3 million", "$ 3 million", True, True),
        ("3", "3 million", True, False),
        ("12.5", "12.5%", True, False),
        ("-12.5", "(12.5)", False, False),
        ("ABC", "abc", True, True),
        ("5 shares", "5", True, True),
        ("2", "3", False, False),
    ],
)
def test_amounts(said, target, relaxed, exact):
    assert same_amount(said, target) == (relaxed, exact)


@pytest.mark.parametrize(
    ("said", "right"), [("True", True), ("it is true.", True), ("true or false", False), ("", False)]
)
def test_statements(said, right):
    assert same_statement(said, "1") is right


@pytest.mark.parametrize(
    ("said", "target", "right"),
    [
        ("b|a", "a|b", True),
        ("a||b", "a|b", True),
        ("3.0", "3", True),
        ("2000-06-01", "2000-6-1", True),
        ("2000-06-xx", "2000-06-01", False),
        ("2000-XX-01", "2000-xx-1", True),
        ("2000-XX-XX", "2000", True),
        ('"a"', "a", True),
        ("a|a", "a", True),
        ("a", "a|b", False),
        ("Zürich [1]", "zurich", True),
    ],
)
def test_lists_of_values(said, target, right):
    assert same_values(said, target) is right


def test_literals_are_read_and_never_run():
    assert read_literal('{"a": [1, 2]}') == {"a": [1, 2]}
    assert read_literal("{'a': (1, 2)}") == {"a": (1, 2)}
    assert read_literal("__import__('os')") is None
    assert read_literal("[" * 10_000) is None
    assert read_literal("-" * 10_000 + "1") is None
    assert unfenced("see\n```json\n[1]\n```\nthere") == "[1]"
    assert numbers([1, 2.5]) == [1.0, 2.5]
    assert numbers([1, True]) == numbers("12") == []


@pytest.mark.parametrize(
    ("text", "number"),
    [("There are 3.", 3), ("two hundred five", 205), ("3 of 4", None), ("none", None), ("9" * 40, None)],
)
def test_the_only_number_of_a_text(text, number):
    assert only_number(text) == number
