"""A linear classifier: what every probe learns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eyechart.metrics.vectors import Floats, Ints, Vectors


@dataclass(frozen=True, slots=True)
class Linear:
    """One row of weights and one bias per class."""

    weights: Floats
    bias: Floats

    def scores(self, features: Vectors) -> Vectors:
        """Return the logits, shape (n, classes)."""
        return np.asarray(features @ self.weights.T.astype(np.float32) + self.bias.astype(np.float32), np.float32)


def accuracy(scores: Vectors, labels: Ints) -> float:
    """Return the share of rows whose label has the one largest score; a tie is wrong, and so is an unknown label."""
    inside = labels < scores.shape[1]
    own = np.take_along_axis(scores, np.where(inside, labels, 0)[:, None], axis=1)
    return float(np.mean(inside & ((scores >= own).sum(axis=1) == 1)))


def log_likelihood(scores: Vectors, labels: Ints) -> float:
    """Return the mean log-probability (softmax) of the labels, over the rows whose label has a finite score."""
    inside = labels < scores.shape[1]
    own = np.take_along_axis(scores, np.where(inside, labels, 0)[:, None], axis=1)[:, 0].astype(np.float64)
    known = inside & np.isfinite(own)
    if not known.any():
        return -np.inf
    top = scores.max(axis=1).astype(np.float64)
    total = np.log(np.exp(scores - top[:, None]).sum(axis=1)) + top
    return float(np.mean((own - total)[known]))
