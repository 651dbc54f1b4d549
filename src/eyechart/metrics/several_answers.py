"""Several answers to each question: is one of k right, are all of k, is the vote of k, and how far do they agree?

All are exact means over the ways to draw k of the n answers there are, without putting any back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import comb


@dataclass(frozen=True, slots=True)
class Vote:
    """One of several answers to a question."""

    said: Hashable | None
    """What was read from it; None is an abstention: nothing could be read."""
    right: bool


def pass_at(n: int, right: int, k: int) -> float:
    """Return the probability that at least one of k answers is right: 1 - C(n - c, k) / C(n, k) (Chen et al., 2021)."""
    return 1 - comb(n - right, k) / comb(n, k)


def worst_at(n: int, right: int, k: int) -> float:
    """Return the probability that all of k answers are right: C(c, k) / C(n, k)."""
    return comb(right, k) / comb(n, k)


def vote_at(votes: Sequence[Vote], k: int) -> float:
    """Return the probability that the answer which most of k votes give is right.

    Abstentions do not vote. A tie between several answers is wrong, and so is a vote in which nobody says anything:
    ties never help.
    """
    counts = Counter(vote.said for vote in votes if vote.said is not None)
    silent = sum(vote.said is None for vote in votes)
    winners = {vote.said for vote in votes if vote.right and vote.said is not None}
    ways = sum(_ways_to_win(counts, winner, silent, k) for winner in winners)
    return ways / comb(len(votes), k)


def consistency(votes: Sequence[Vote]) -> float:
    """Return the probability that two of the answers say the same; an abstention agrees with nothing."""
    counts = Counter(vote.said for vote in votes if vote.said is not None)
    return sum(comb(count, 2) for count in counts.values()) / comb(len(votes), 2)


def _ways_to_win(counts: Counter[Hashable], winner: Hashable, silent: int, k: int) -> int:
    """Count the sets of k votes in which an answer has more votes than every other one."""
    others = [count for said, count in counts.items() if said != winner]
    total = 0
    for mine in range(1, min(k, counts[winner]) + 1):
        # Polynomials whose coefficients count the ways to draw so many votes: of others fewer than `mine` each.
        factors = [[comb(count, i) for i in range(min(mine - 1, count) + 1)] for count in others]
        factors.append([comb(silent, i) for i in range(silent + 1)])
        *_, drawn = accumulate(factors, _times, initial=[1])
        rest = k - mine
        total += comb(counts[winner], mine) * (drawn[rest] if rest < len(drawn) else 0)
    return total


def _times(first: list[int], second: list[int]) -> list[int]:
    product = [0] * (len(first) + len(second) - 1)
    for i, a in enumerate(first):
        for j, b in enumerate(second):
            product[i + j] += a * b
    return product
