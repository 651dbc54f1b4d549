"""Classification by similarity: ranks, accuracy, per-class recall, average precision, and calibration."""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from eyechart.metrics.vectors import Flags, Floats, Ints, Vectors, distinct_rows, zero_rows

BLOCK_BYTES = 2 * 1024 * 1024
"""Scores are computed in blocks of rows of at most this size."""
FEWEST_ROWS = 64
"""Lower bound on the rows of a block: a matrix product of fewer is dominated by set-up cost."""
TOP = 5
"""Number of top classes kept."""


@dataclass(frozen=True, slots=True)
class LabelRanking:
    """The rank of the true class and the top classes of every sample."""

    ranks: Ints
    """1 is best; a class that ties with the true one ranks before it."""
    top: Ints
    """The `TOP` best classes; equal scores in class order."""
    top_scores: Vectors
    label_scores: Vectors
    ties: int
    """Number of samples whose rank depends on the tie rule."""


@dataclass(frozen=True, slots=True)
class _Candidates:
    """Candidate classes. Equal vectors are scored once, so that they tie exactly."""

    columns: Vectors
    """One column per distinct vector."""
    column: Ints
    """Column of each class."""
    copies: Ints
    """Number of classes that share each column."""
    twins: Ints
    """Number of classes with the same name and vector, including the class itself."""
    place: Ints
    """Number of those that precede the class."""
    zero: Flags

    @classmethod
    def of(cls, classes: Vectors, names: Sequence[str] | None) -> Self:
        first, column, copies = distinct_rows(classes)
        keys = list(zip(range(len(classes)) if names is None else names, column.tolist(), strict=True))
        place, twins = _equal_keys(keys)
        return cls(np.ascontiguousarray(classes[first].T), column, copies, twins, place, zero_rows(classes))

    def count(self, flags: Flags) -> Ints:
        """Count the classes whose columns are marked, row by row."""
        if len(self.copies) == len(self.column):
            return np.asarray(np.count_nonzero(flags, axis=1), np.int64)
        # Integers of this size are exact in float32, whose products are many times faster.
        return np.asarray(flags.astype(np.float32) @ self.copies.astype(np.float32), np.int64)


def _equal_keys(keys: Sequence[Hashable]) -> tuple[Ints, Ints]:
    """Return how many equal keys precede each key, and how many there are."""
    seen: Counter[Hashable] = Counter()
    before = np.empty(len(keys), np.int64)
    for i, key in enumerate(keys):
        before[i] = seen[key]
        seen[key] += 1
    return before, np.fromiter(map(seen.__getitem__, keys), np.int64, len(keys))


def rank_labels(images: Vectors, classes: Vectors, labels: Ints, names: Sequence[str] | None = None) -> LabelRanking:
    """Rank all classes by cosine for each image and find the true one.

    Classes with the same name and vector are one candidate listed twice: they rank in class order, so the first can be
    correct and later ones are one place behind. Published ImageNet numbers treat its two duplicate names this way. Any
    other tie counts against the label; a zero vector ranks last. Vectors have unit length. Without ``names`` all
    classes are different.
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
        if len(those.copies) < len(classes):
            scores = scores[:, those.column]
        best[rows], best_scores[rows] = _top(scores, top)
    return LabelRanking(ranks, best, best_scores, own_scores, ties)


def first_choices(images: Vectors, classes: Vectors, labels: Ints, names: Sequence[str] | None = None) -> Flags:
    """Whether the true class ranks first, for each image: a cheaper `rank_labels` for top-1 only."""
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

    A label beyond the columns (a class absent from training) ranks after all of them.
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
    """Rank the true classes by given scores when class names are unknown.

    Columns that are equal throughout are one candidate listed twice, like two classes with the same name: they rank in
    column order (see `rank_labels`). Any other tie counts against the label, and so does a matrix whose columns are all
    equal.
    """
    _, column, copies = distinct_rows(scores.T)
    before, twins = _equal_keys(column.tolist())
    if len(copies) == 1:
        before, twins = np.zeros_like(before), np.ones_like(twins)
    own = np.take_along_axis(scores, labels[:, None], axis=1)
    tied = (scores == own).sum(axis=1) - twins[labels]
    return np.asarray((scores > own).sum(axis=1) + tied + before[labels] + 1, np.int64)


def predicted_classes(ranking: LabelRanking, labels: Ints) -> Ints:
    """Return the predicted class: the best one, or the runner-up if the label merely ties for first place."""
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
    # Minus infinity (a class absent from training) is indistinguishable from a score already taken.
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
    """Sort samples by descending score, negatives first among ties; return the order and the positives' positions."""
    order = np.lexsort((present, -scores))
    return order, np.flatnonzero(present[order])


BINS = 15


@dataclass(frozen=True, slots=True)
class Likelihoods:
    """Per-sample probabilities derived from a model's scores."""

    confidence: Floats
    """Probability of the best class."""
    nll: Floats
    """Negative log-likelihood of the true class."""
    brier: Floats
    """Brier score: squared error over all class probabilities."""


def likelihoods(images: Vectors, classes: Vectors, labels: Ints, scale: float, bias: float | None) -> Likelihoods:
    """Turn cosines into probabilities as the model does: softmax(scale * cos), or sigmoid(scale * cos + bias).

    The scale is the model's own, never a fitted temperature. A model with a bias was trained with a sigmoid loss
    (SigLIP) and scores each class independently: its negative log-likelihood sums over all binary decisions, and its
    confidence is the probability of the best class.
    """
    n = len(images)
    out = Likelihoods(np.empty(n), np.empty(n), np.empty(n))
    step = max(1, BLOCK_BYTES // (48 * len(classes)))
    columns = np.ascontiguousarray(classes.T)
    for start in range(0, n, step):
        rows = slice(start, start + step)
        logits = scale * (images[rows] @ columns).astype(np.float64) + (bias or 0.0)
        truth = np.zeros(logits.shape)
        truth[np.arange(len(truth)), labels[rows]] = 1
        if bias is None:
            logs = logits - logits.max(axis=1, keepdims=True)
            logs -= np.log(np.exp(logs).sum(axis=1, keepdims=True))
            chances, out.nll[rows] = np.exp(logs), -(logs * truth).sum(axis=1)
        else:
            chances = np.exp(-np.logaddexp(0, -logits))
            out.nll[rows] = np.logaddexp(0, np.where(truth > 0, -logits, logits)).sum(axis=1)
        out.confidence[rows] = chances.max(axis=1)
        out.brier[rows] = np.sum((chances - truth) ** 2, axis=1)
    return out


def expected_calibration_error(confidence: Floats, correct: Flags, bins: int = BINS) -> float:
    """Mean gap between confidence and accuracy over bins of equal width, weighted by size (Guo et al. 2017)."""
    return _gap(confidence, correct, _bin_of(confidence, bins))


def adaptive_calibration_error(confidence: Floats, correct: Flags, bins: int = BINS) -> float:
    """Calibration error over bins of equal size, which leaves no bin nearly empty (Nguyen and O'Connor 2015)."""
    place = np.empty(len(confidence), np.int64)
    place[np.argsort(confidence, kind="stable")] = np.arange(len(confidence)) * bins // len(confidence)
    return _gap(confidence, correct, place)


def reliability(confidence: Floats, correct: Flags, bins: int = BINS) -> list[dict[str, Any]]:
    """Return the reliability diagram: mean confidence and accuracy of each non-empty bin."""
    place = _bin_of(confidence, bins)
    return [
        {
            "low": i / bins,
            "high": (i + 1) / bins,
            "confidence": float(confidence[place == i].mean()),
            "accuracy": float(correct[place == i].mean()),
            "count": int((place == i).sum()),
        }
        for i in np.unique(place).tolist()
    ]


def _bin_of(confidence: Floats, bins: int) -> Ints:
    """Return the bin of each value; a value on an edge belongs to the lower bin, as in Guo et al."""
    return np.clip(np.ceil(confidence * bins).astype(np.int64) - 1, 0, bins - 1)


def _gap(confidence: Floats, correct: Flags, place: Ints) -> float:
    sizes = np.bincount(place)
    gaps = np.abs(np.bincount(place, weights=confidence) - np.bincount(place, weights=correct.astype(np.float64)))
    return float(gaps.sum() / sizes.sum())


ABSTENTION = np.linspace(0, 1, 11)[:-1]
"""Abstention rates: shares of the least confident answers that are withheld."""


def abstention_gain(confidence: Floats, values: Floats) -> float | None:
    """Return how much a metric gains from withholding the least confident queries: the nAUC of arXiv 2402.12997.

    The area under the curve of the metric over the abstention rate, normalised so that 0 is an uninformative confidence
    and 1 an oracle that knows the metric itself. Agrees with MTEB's ``nauc_*``: queries of equal confidence count as
    their mean. None if the metric is the same for all queries (or 1, if the two areas differ by rounding).
    """
    best = _abstention_curve(values, values)
    flat = best[0] * (ABSTENTION[-1] - ABSTENTION[0])
    most = np.trapezoid(best, ABSTENTION)
    if most == flat:
        return None
    return float((np.trapezoid(_abstention_curve(confidence, values), ABSTENTION) - flat) / (most - flat))


def _abstention_curve(confidence: Floats, values: Floats) -> Floats:
    """Return the mean of the remaining values at each abstention rate."""
    order = np.argsort(confidence, kind="stable")
    ranked, kept = confidence[order], values[order]
    heads = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]])
    sizes = np.diff(np.r_[heads, len(ranked)])
    kept = np.repeat(np.add.reduceat(kept, heads) / sizes, sizes)
    last = len(kept) - 1
    return np.array([kept[min(round(float(share) * len(kept)), last) :].mean() for share in ABSTENTION])
