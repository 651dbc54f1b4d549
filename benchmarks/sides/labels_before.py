"""The rank of the true class as it was found before: whole numbers are multiplied, and all classes sorted."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

BLOCK_BYTES = 2 * 1024 * 1024
TOP = 5


def rank_labels(images: NDArray[np.float32], classes: NDArray[np.float32], labels: NDArray[np.int64]) -> list[NDArray]:
    """Return the ranks of the labels and the best classes, for classes that are all different."""
    columns, copies, column = np.ascontiguousarray(classes.T), np.ones(len(classes), np.int64), np.arange(len(classes))
    ranks, best = [], []
    step = max(1, BLOCK_BYTES // (8 * len(classes)))
    for start in range(0, len(images), step):
        rows = slice(start, start + step)
        scores = images[rows] @ columns
        own = np.take_along_axis(scores, labels[rows][:, None], axis=1)
        tied = (scores == own) @ copies - 1
        ranks.append((scores > own) @ copies + tied + 1)
        best.append(np.argsort(-scores[:, column], axis=1, kind="stable")[:, :TOP])
    return [np.concatenate(ranks), np.concatenate(best)]
