"""Classification by similarity: ranks, accuracy, per-class recall, average precision. Ties never help."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from eyechart.metrics.vectors import Flags, Ints, Vectors, distinct_rows, zero_rows

BLOCK_BYTES = 2 * 1024 * 1024
"""Scores are made in blocks of rows of at most this size."""
FEWEST_ROWS = 64
"""But at least so many rows: a matrix product of fewer spends its time on preparing the classes."""
TOP = 5
"""How many of the best classes are kept."""


@dataclass(frozen=True, slots=True)
class LabelRanking:
    """Where the true class stands for every sample, and who stands on top."""

    ranks: Ints
    """1 is best; a class that ties with the true one stands before it."""
    top: Ints
    """The `TOP` best classes, equal scores in class order."""
    top_scores: Vectors
    label_scores: Vectors
    ties: int
    """How many samples' rank depends on the tie rule."""


@dataclass(frozen=True, slots=True)
class _Candidates:
    """Classes to choose from. Equal vectors are scored once, so that they tie exactly."""

    columns: Vectors
    """One column per distinct vector."""
    column: Ints
    """For each class, its column."""
    copies: Ints
    """For each column, how many classes have it."""
    twins: Ints
    """For each class, how many have its name and its vector, itself included."""
    place: Ints
    """For each class, how many of those stand before it."""
    zero: Flags

    @classmethod
    def of(cls, classes: Vectors, names: Sequence[str] | None) -> Self:
        first, column, copies = distinct_rows(classes)
        keys = list(zip(range(len(classes)) if names is None else names, column.tolist(), strict=True))
        total, seen, place = Counter(keys), Counter[object](), []
        for key in keys:
            place.append(seen[key])
            seen[key] += 1
        twins = np.array([total[key] for key in keys], np.int64)
        columns = np.ascontiguousarray(classes[first].T)
        return cls(columns, column, copies, twins, np.array(place, np.int64), zero_rows(classes))

    def count(self, flags: Flags) -> Ints:
        """Count the classes whose columns are marked, row by row."""
        if len(self.copies) == len(self.column):
            return np.asarray(np.count_nonzero(flags, axis=1), np.int64)
        # Whole numbers of this size are exact in float32, whose products are many times as fast.
        return np.asarray(flags.astype(np.float32) @ self.copies.astype(np.float32), np.int64)

    def expand(self, scores: Vectors) -> Vectors:
        """Return a column for every class."""
        return scores if len(self.copies) == len(self.column) else scores[:, self.column]


def rank_labels(images: Vectors, classes: Vectors, labels: Ints, names: Sequence[str] | None = None) -> LabelRanking:
    """Rank all classes by cosine for each image and find the true one.

    Classes of one name and one vector are the same candidate listed twice: they stand in class order, so the first
    one can be right and the later ones are one place behind. This is how published ImageNet numbers treat its two
    duplicate names. Any other tie counts against the label; what has a zero vector is similar to nothing and stands
    last.

    Args:
        images: Unit vectors of the images, (n, d).
        classes: Unit vectors of the classes, (c, d).
        labels: The true class of each image.
        names: The names of the classes; without them, all are different.
    """
    those = _Candidates.of(classes, names)
    top = min(TOP, len(classes))
    n = len(images)
    ranks, best = np.empty(n, np.int64), np.empty((n, top), np.int64)
    best_scores, own_scores = np.empty((n, top), np.float32), np.empty(n, np.float32)
    ties = 0
    step = max(FEWEST_ROWS, BLOCK_BYTES // (8 * max(1, len(classes))))
    for start in range(0, n, step):
        rows = slice(start, min(start + step, n))
        scores = images[rows] @ those.columns
        label = labels[rows]
        own = np.take_along_axis(scores, those.column[label][:, None], axis=1)
        above = those.count(scores > own)
        tied = those.count(scores == own) - those.twins[label]
        said_nothing = those.zero[label] | zero_rows(images[rows])
        ranks[rows] = np.where(said_nothing, len(classes), above + tied + those.place[label] + 1)
        ties += int((tied > 0).sum())
        own_scores[rows] = own[:, 0]
        best[rows], best_scores[rows] = _top(those.expand(scores), top)
    return LabelRanking(ranks, best, best_scores, own_scores, ties)


def first_choices(images: Vectors, classes: Vectors, labels: Ints, names: Sequence[str] | None = None) -> Flags:
    """Tell for each image whether the true class ranks first; the same as `rank_labels`, and nothing else of it."""
    those = _Candidates.of(classes, names)
    alone = (those.place == 0) & (those.copies[those.column] == those.twins)
    possible = alone & ~those.zero
    out = np.empty(len(images), bool)
    step = max(FEWEST_ROWS, BLOCK_BYTES // (8 * those.columns.shape[1]))
    for start in range(0, len(images), step):
        rows = slice(start, start + step)
        scores = images[rows] @ those.columns
        own = np.take_along_axis(scores, those.column[labels[rows]][:, None], axis=1)
        out[rows] = (np.count_nonzero(scores >= own, axis=1) == 1) & ~zero_rows(images[rows])
    return np.asarray(out & possible[labels], bool) if len(classes) > 1 else np.ones(len(images), bool)


def rank_scores(scores: Vectors, labels: Ints) -> LabelRanking:
    """Rank classes by given scores, shape (n, classes), such as a probe's. Every tie counts against the label.

    A label beyond the columns (a class that was never learnt) stands behind all of them.
    """
    inside = labels < scores.shape[1]
    own = np.take_along_axis(scores, np.where(inside, labels, 0)[:, None], axis=1)
    reached = (scores >= own).sum(axis=1)
    ranks = np.where(inside, reached, scores.shape[1] + 1)
    ties = int((inside & (reached > (scores > own).sum(axis=1) + 1)).sum())
    best, best_scores = _top(scores, min(TOP, scores.shape[1]))
    own_scores = np.where(inside, own[:, 0], -np.inf).astype(np.float32)
    return LabelRanking(ranks.astype(np.int64), best, best_scores, own_scores, ties)


def rank_logits(scores: Vectors, labels: Ints) -> Ints:
    """Rank the true classes by given scores where the names of classes are not known.

    Columns that are equal throughout are one candidate listed twice, as two classes of one name are: they stand in
    column order (see `rank_labels`). Any other tie counts against the label, and so do columns that are all equal.
    """
    _, column, copies = distinct_rows(scores.T)
    seen, place = Counter[int](), []
    for number in column.tolist():
        place.append(seen[number])
        seen[number] += 1
    before, twins = np.array(place, np.int64), copies[column]
    if len(copies) == 1:
        before, twins = np.zeros_like(before), np.ones_like(twins)
    own = np.take_along_axis(scores, labels[:, None], axis=1)
    tied = (scores == own).sum(axis=1) - twins[labels]
    return np.asarray((scores > own).sum(axis=1) + tied + before[labels] + 1, np.int64)


def predicted_classes(ranking: LabelRanking, labels: Ints) -> Ints:
    """Return the class that counts as predicted: the best one, and where the label only ties for it, another one."""
    first = ranking.top[:, 0]
    if ranking.top.shape[1] == 1:
        return first
    return np.where((first == labels) & (ranking.ranks > 1), ranking.top[:, 1], first)


def f1_macro(predictions: Ints, labels: Ints) -> float:
    """Mean F1 over the classes that occur in the labels: WILDS' "F1-macro_all", the main metric of iWildCam."""
    n = int(max(predictions.max(), labels.max())) + 1
    hits = np.bincount(labels[predictions == labels], minlength=n)
    total = np.bincount(labels, minlength=n) + np.bincount(predictions, minlength=n)
    judged = np.unique(labels)
    return float(np.mean(2 * hits[judged] / total[judged]))


def _top(scores: Vectors, k: int) -> tuple[Ints, Vectors]:
    """Return the k best columns of each row and their scores, equal scores in column order."""
    rows = np.arange(len(scores))
    best, found = np.empty((k, len(scores)), np.int64), np.empty((k, len(scores)), scores.dtype)
    for place in range(k):
        best[place] = scores.argmax(axis=1)  # of equal ones the first
        found[place] = scores[rows, best[place]]
        scores[rows, best[place]] = -np.inf
    for place in reversed(range(k)):
        scores[rows, best[place]] = found[place]
    # What is minus infinity (a class that was never learnt) cannot be told from what was taken.
    odd = np.flatnonzero(~np.isfinite(found).all(axis=0))
    best[:, odd] = np.argsort(-scores[odd], axis=1, kind="stable")[:, :k].T
    found[:, odd] = scores[odd, best[:, odd]]
    return best.T, found.T


def per_class_recall(correct: Flags, labels: Ints, n_classes: int) -> dict[int, float]:
    """Return the share of correct samples for every class that occurs in the labels."""
    total = np.bincount(labels, minlength=n_classes)
    hits = np.bincount(labels, weights=correct.astype(np.float64), minlength=n_classes)
    return {int(i): float(hits[i] / total[i]) for i in np.flatnonzero(total)}


def average_precision(scores: NDArray[np.floating[Any]], present: Flags) -> float:
    """Non-interpolated average precision of one class: mean precision at each positive, in order of score.

    Among equal scores the negatives come first. Without ties this is sklearn's ``average_precision_score``.
    """
    _, places = ranked_positives(scores, present)
    return float(np.mean(np.arange(1, len(places) + 1) / (places + 1))) if len(places) else float("nan")


def ranked_positives(scores: NDArray[np.floating[Any]], present: Flags) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Order samples by falling score, the negatives first among equals; return the order and the positives' places."""
    order = np.lexsort((present, -scores))
    return order, np.flatnonzero(present[order])
