"""Choosing between candidates: Winoground's three scores for any number of images and texts, Jaccard for sets."""

import math
from dataclasses import dataclass

import numpy as np

from eyechart.metrics.vectors import Flags, Vectors, zero_rows


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of a question in one direction."""

    correct: bool
    """Every correct candidate scores strictly higher than every wrong one, for each query."""
    tied: bool
    """Wrong only because a wrong candidate has exactly the score of a correct one."""


def pair_scores(images: Vectors, texts: Vectors) -> Vectors:
    """Return the cosine of every image and text, given unit vectors; equal vectors score alike at any position.

    A zero vector scores -1 with everything.
    """
    scores = np.asarray((images[:, None, :] * texts[None, :, :]).sum(axis=2), np.float32)
    scores[zero_rows(images)] = -1
    scores[:, zero_rows(texts)] = -1
    return scores


def choose(scores: Vectors, right: Flags) -> Verdict | None:
    """Judge the choice of a column for each row that has right and wrong columns; None if no row has both.

    With one right column this is the strict inequality of Winoground and SugarCrepe: a constant scorer gets 0.
    (CLIP_benchmark and MTEB take the argmax with the right candidate first: a constant scorer gets 1.0.)
    """
    asks = right.any(axis=1) & ~right.all(axis=1)
    if not asks.any():
        return None
    worst_right = np.where(right, scores, np.inf)[asks].min(axis=1)
    best_wrong = np.where(right, -np.inf, scores)[asks].max(axis=1)
    correct = bool((worst_right > best_wrong).all())
    return Verdict(correct, not correct and bool((worst_right >= best_wrong).all()))


def chance_choice(right: Flags) -> float:
    """Return the probability that random scores answer every row of a question correctly."""
    product = 1.0
    for row in right:
        if row.any() and not row.all():
            product /= math.comb(len(row), int(row.sum()))
    return product


def jaccard(scores: Vectors, right: Flags) -> float:
    """Return |chosen and right| / |chosen or right| when as many candidates are chosen as are right (WinoGAViL).

    Among ties the wrong candidates are chosen first.
    """
    count = int(right.sum())
    chosen = np.lexsort((right, -scores))[:count]
    hits = int(right[chosen].sum())
    return hits / (2 * count - hits)


def chance_jaccard(candidates: int, right: int) -> float:
    """Return the expected Jaccard index of a random choice of ``right`` out of ``candidates``."""
    total = math.comb(candidates, right)
    return math.fsum(
        math.comb(right, hits) * math.comb(candidates - right, right - hits) / total * hits / (2 * right - hits)
        for hits in range(max(0, 2 * right - candidates), right + 1)
    )
