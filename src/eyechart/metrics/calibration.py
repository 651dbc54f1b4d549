"""Calibration: does a model that says 0.8 get eight of ten right? With the model's own scale, never a fitted one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from eyechart.metrics.vectors import Flags, Floats, Ints, Vectors

BINS = 15
BLOCK_BYTES = 2 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Likelihoods:
    """What a model says of each sample."""

    confidence: Floats
    """Probability of the best class."""
    nll: Floats
    """Negative log-probability of the truth."""
    brier: Floats
    """Squared error of all class probabilities."""


def likelihoods(images: Vectors, classes: Vectors, labels: Ints, scale: float, bias: float | None) -> Likelihoods:
    """Turn cosines into probabilities as the model does: softmax(scale * cos), or sigmoid(scale * cos + bias).

    A model trained with a sigmoid (SigLIP: it has a bias) says of each class alone whether it fits, so its negative
    log-likelihood is that of all yes-or-no answers, and its confidence that the best class fits.
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
        chances, out.nll[rows] = _softmax(logits, truth) if bias is None else _sigmoid(logits, truth)
        out.confidence[rows] = chances.max(axis=1)
        out.brier[rows] = np.sum((chances - truth) ** 2, axis=1)
    return out


def _softmax(logits: Floats, truth: Floats) -> tuple[Floats, Floats]:
    shifted = logits - logits.max(axis=1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return np.exp(logs), -(logs * truth).sum(axis=1)


def _sigmoid(logits: Floats, truth: Floats) -> tuple[Floats, Floats]:
    chances = np.exp(-np.logaddexp(0, -logits))
    return chances, np.logaddexp(0, np.where(truth > 0, -logits, logits)).sum(axis=1)


def expected_calibration_error(confidence: Floats, correct: Flags, bins: int = BINS) -> float:
    """Mean gap between confidence and accuracy over bins of equal width, weighted by size (Guo et al. 2017)."""
    return _gap(confidence, correct, _bin_of(confidence, bins))


def adaptive_calibration_error(confidence: Floats, correct: Flags, bins: int = BINS) -> float:
    """Do the same over bins of equal size, so that no bin is empty or nearly so (Nguyen and O'Connor 2015)."""
    place = np.empty(len(confidence), np.int64)
    place[np.argsort(confidence, kind="stable")] = np.arange(len(confidence)) * bins // len(confidence)
    return _gap(confidence, correct, place)


def reliability(confidence: Floats, correct: Flags, bins: int = BINS) -> list[dict[str, Any]]:
    """Return the reliability diagram: each bin that is not empty, with its mean confidence and accuracy."""
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
    """Return the bin of each value; a value on a border belongs to the lower bin, as in Guo et al."""
    return np.clip(np.ceil(confidence * bins).astype(np.int64) - 1, 0, bins - 1)


def _gap(confidence: Floats, correct: Flags, place: Ints) -> float:
    sizes = np.bincount(place)
    gaps = np.abs(np.bincount(place, weights=confidence) - np.bincount(place, weights=correct.astype(np.float64)))
    return float(gaps.sum() / sizes.sum())


ABSTENTION = np.linspace(0, 1, 11)[:-1]
"""The shares of the least confident answers that are withheld."""


def abstention_gain(confidence: Floats, values: Floats) -> float | None:
    """How much better a metric gets if the least confident queries are withheld: the nAUC of arXiv 2402.12997.

    The area under the curve of the metric over the share that is withheld, scaled so that 0 is a confidence that tells
    nothing and 1 is to know the metric itself. Agrees with MTEB's ``nauc_*``: queries of equal confidence count as
    their mean, and a metric that is the same for all queries has none (or 1, where the two areas differ by rounding).
    """
    best = _abstention_curve(values, values)
    flat = best[0] * (ABSTENTION[-1] - ABSTENTION[0])
    most = np.trapezoid(best, ABSTENTION)
    if most == flat:
        return None
    return float((np.trapezoid(_abstention_curve(confidence, values), ABSTENTION) - flat) / (most - flat))


def _abstention_curve(confidence: Floats, values: Floats) -> Floats:
    """Return the mean of the values that are left when each share of the least confident ones is withheld."""
    order = np.argsort(confidence, kind="stable")
    ranked, kept = confidence[order], values[order]
    heads = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]])
    sizes = np.diff(np.r_[heads, len(ranked)])
    kept = np.repeat(np.add.reduceat(kept, heads) / sizes, sizes)
    last = len(kept) - 1
    return np.array([kept[min(round(float(share) * len(kept)), last) :].mean() for share in ABSTENTION])
