"""Questions put several times: circular evaluation (rotated options), and pass@k, worst@k and majority votes."""

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from math import comb

import numpy as np

from eyechart.metrics.cell_values import LETTERS, Row, as_text, is_missing, options_of

GROUP_SIZE = 1_000_000
"""Distance between the indices of two rotations of a question, in tables without a `g_index` column."""


def circular_rows(rows: Iterable[Row]) -> list[dict[str, object]]:
    """Return the rows, followed by every further rotation of their options, like `vlmutil circular`.

    Rotation i of a question has the index `index + i * offset` (a million, or the power of ten above the largest
    index), `g_index` identifies the question, `image` refers to its row, and `answer` follows its option. A question is
    not rotated if that would change its meaning: an option is or mentions option letters, there are fewer than two
    options or a gap between them, or the answer is not one of them.
    """
    originals = [dict(row) for row in rows]
    indices = [row_index(row) for row in originals]
    if len(set(indices)) < len(indices):
        raise ValueError("two rows have the same index: circular evaluation groups rows by it")
    if any(index < 0 for index in indices):
        raise ValueError("an index is negative: circular evaluation counts upwards from it")
    offset = GROUP_SIZE
    while max(indices, default=0) >= offset:
        offset *= 10
    known = {str(index) for index in indices}
    kept = [row | {"index": index, "g_index": index} for row, index in zip(originals, indices, strict=True)]
    rotated = []
    turning = [(row, LETTERS[: len(options_of(row))]) for row in kept if can_rotate(row)]
    for times in range(1, len(LETTERS)):
        for row, labels in turning:
            if times >= len(labels):
                continue
            moved = {old: labels[(i - times) % len(labels)] for i, old in enumerate(labels)}
            group = row_index(row)
            changed: dict[str, object] = {new: row[old] for old, new in moved.items()}
            changed |= {"index": group + offset * times, "answer": moved[as_text(row["answer"])]}
            # References are followed only once, so a row that borrows another row's image keeps its reference.
            if not is_missing(row.get("image")) and as_text(row["image"]) not in known:
                changed["image"] = str(group)
            rotated.append(row | changed)
    return kept + rotated


def can_rotate(row: Row) -> bool:
    """Whether a question keeps its meaning when its options change places."""
    options = options_of(row)
    labels = LETTERS[: len(options)]
    answer = as_text(row.get("answer"))
    if len(options) < 2 or "".join(options) != labels or len(answer) != 1 or answer not in labels:
        return False
    for text in options.values():
        mentioned = {word for word in re.findall("[A-Za-z]+", text) if len(word) == 1 and word in labels}
        if len(mentioned) > 1 or (len(text.strip()) == 1 and text.strip() in LETTERS):
            return False
    return True


def row_index(row: Row) -> int:
    """Return a row's index as an integer, as circular evaluation requires."""
    text = as_text(row.get("index")).removesuffix(".0")
    if not re.fullmatch(r"-?\d{1,18}", text):
        raise ValueError(f"index {row.get('index')!r} is not a whole number, which circular evaluation needs")
    return int(text)


def question_of(row: Row) -> int:
    """Return the id of the question that a row is a rotation of: its `g_index`, or its index modulo a million."""
    given = row.get("g_index")
    return row_index(row) % GROUP_SIZE if is_missing(given) else row_index({"index": given})


# Metrics over several answers per question are exact means over the ways to draw k of the n answers.


@dataclass(frozen=True, slots=True)
class Vote:
    """One of several answers to a question."""

    said: Hashable | None
    """The extracted answer; None is an abstention (unreadable)."""
    right: bool


def pass_at(n: int, right: int, k: int) -> float:
    """Return the probability that at least one of k answers is right: 1 - C(n - c, k) / C(n, k) (Chen et al., 2021)."""
    return 1 - comb(n - right, k) / comb(n, k)


def worst_at(n: int, right: int, k: int) -> float:
    """Return the probability that all of k answers are right: C(c, k) / C(n, k)."""
    return comb(right, k) / comb(n, k)


def vote_at(votes: Sequence[Vote], k: int) -> float:
    """Return the probability that the majority answer of k votes is right.

    Abstentions do not vote. A tie between several answers is wrong, and so is a vote of abstentions only: ties never
    help.
    """
    counts = Counter(vote.said for vote in votes if vote.said is not None)
    silent = sum(vote.said is None for vote in votes)
    winners = {vote.said for vote in votes if vote.right and vote.said is not None}
    ways = sum(_ways_to_win(counts, winner, silent, k) for winner in winners)
    return ways / comb(len(votes), k)


def consistency(votes: Sequence[Vote]) -> float:
    """Return the probability that two of the answers agree; an abstention agrees with nothing."""
    counts = Counter(vote.said for vote in votes if vote.said is not None)
    return sum(comb(count, 2) for count in counts.values()) / comb(len(votes), 2)


def _ways_to_win(counts: Counter[Hashable], winner: Hashable, silent: int, k: int) -> int:
    """Count the sets of k votes in which an answer has more votes than every other one."""
    others = [count for said, count in counts.items() if said != winner]
    total = 0
    for mine in range(1, min(k, counts[winner]) + 1):
        # Polynomials whose coefficients count the ways to draw that many votes: fewer than `mine` of each other answer.
        factors = [[comb(count, i) for i in range(min(mine - 1, count) + 1)] for count in others]
        factors.append([comb(silent, i) for i in range(silent + 1)])
        drawn = reduce(np.convolve, [np.array(factor, object) for factor in factors])  # exact, as Python's integers
        rest = k - mine
        total += comb(counts[winner], mine) * (drawn[rest] if rest < len(drawn) else 0)
    return total
