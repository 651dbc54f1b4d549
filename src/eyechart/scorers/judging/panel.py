"""Several verdicts on one answer, of one judge or of several: what they decide together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any


def majority(runs: Sequence[Sequence[Any]]) -> list[Any]:
    """Return for each answer the score that the majority of verdicts gives it; a tie never helps.

    The median decides, of an even number of verdicts the lower one: of rights and wrongs that is the majority. Among
    the scores that are as right as that, the most frequent one stands.
    """
    if len(runs) == 1:
        return list(runs[0])
    return [_middle(scores) for scores in zip(*runs, strict=True)]


def _middle(scores: Sequence[Any]) -> Any:
    ordered = sorted(scores, key=lambda score: score.correct)
    middle = ordered[(len(ordered) - 1) // 2].correct
    same = [score for score in scores if score.correct == middle]
    often = Counter((score.extracted, score.rule) for score in same)
    return max(same, key=lambda score: often[score.extracted, score.rule])
