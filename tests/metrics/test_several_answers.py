"""pass@k, worst@k, vote@k and consistency: equal to what trying all draws gives."""

from collections import Counter
from itertools import combinations
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eyechart.metrics.repeated_questions import Vote, consistency, pass_at, vote_at, worst_at

answers = st.lists(st.sampled_from(["A", "B", "C", None]), min_size=2, max_size=8)


def votes_of(said, right="A"):
    return [Vote(one, one == right) for one in said]


def wins(said):
    """Tell whether A alone has the most votes."""
    counts = Counter(one for one in said if one is not None)
    top = max(counts.values(), default=0)
    return [one for one, count in counts.items() if count == top] == ["A"]


@given(answers, st.data())
def test_they_are_the_means_over_all_draws(said, data):
    k = data.draw(st.integers(1, len(said)))
    draws = list(combinations(said, k))
    right = said.count("A")

    assert pass_at(len(said), right, k) == pytest.approx(fmean("A" in draw for draw in draws))
    assert worst_at(len(said), right, k) == pytest.approx(fmean(set(draw) == {"A"} for draw in draws))
    assert vote_at(votes_of(said), k) == pytest.approx(fmean(wins(draw) for draw in draws))


@given(answers)
def test_consistency_is_the_share_of_pairs_that_say_the_same(said):
    pairs = list(combinations(said, 2))

    assert consistency(votes_of(said)) == pytest.approx(fmean(a == b and a is not None for a, b in pairs))


def test_a_tie_is_wrong_and_silence_does_not_vote():
    assert vote_at(votes_of(["A", "B"]), 2) == 0
    assert vote_at(votes_of(["A", "B", None]), 3) == 0
    assert vote_at(votes_of(["A", None, None]), 3) == 1
    assert vote_at(votes_of([None, None]), 2) == 0


def test_two_answers_that_are_both_right_do_not_split_into_a_third():
    votes = [Vote("5", True), Vote("5.0", True), Vote("7", False)]

    assert vote_at(votes, 3) == 0  # three different answers: nobody wins
    assert vote_at([*votes, Vote("5", True)], 4) == 1
