"""Which training samples a probe may see: a few per class, a held-out part, other folds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eyechart.errors import DataError, UsageError

Ints = NDArray[np.int64]


def few_per_class(labels: Ints, k: int, seed: int, names: Sequence[str] = ()) -> Ints:
    """Draw ``k`` positions of every class that occurs, ascending; ``k`` below 1 means all of them.

    One random order decides for every k, so a larger draw with the same seed holds the smaller one.

    Raises:
        DataError: If a class has fewer than ``k`` samples: a score from uneven classes would not be a k-shot score.
    """
    check_shots(labels, k, names)
    if k < 1:
        return np.arange(len(labels))
    by_class, place = _shuffled_by_class(labels, seed)
    return np.sort(by_class[place < k])


def check_shots(labels: Ints, k: int, names: Sequence[str] = ()) -> None:
    """Refuse to draw more images of each class than there are."""
    counts = np.bincount(labels)
    small = [int(c) for c in np.flatnonzero(counts) if counts[c] < k]
    if small:
        name = repr(names[small[0]]) if small[0] < len(names) else str(small[0])
        raise DataError(
            f"{len(small)} classes have fewer than {k} training images, the first is {name} with {counts[small[0]]}.",
            advice=f"Use at most --fewshot_k {counts[counts > 0].min()}.",
        )


def _shuffled_by_class(labels: Ints, seed: int) -> tuple[Ints, Ints]:
    """Return all positions, class after class and at random within each, and the place of each in its class."""
    order = np.random.default_rng(seed).permutation(len(labels))
    counts = np.bincount(labels)
    place = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)
    return order[np.argsort(labels[order], kind="stable")], place


def hold_out(n: int, proportion: float, seed: int) -> tuple[Ints, Ints]:
    """Split positions at random into those to learn from and a share to validate on."""
    size = round(n * proportion)
    if not 0 < size < n:
        raise DataError(f"A share of {proportion} of {n} training images leaves one side empty.")
    order = np.random.default_rng(seed).permutation(n)
    return np.sort(order[size:]), np.sort(order[:size])


def hold_out_per_class(labels: Ints, proportion: float, seed: int) -> tuple[Ints, Ints] | None:
    """Hold out the same share of every class, or None if a class is too small to give one and keep one."""
    counts = np.bincount(labels)
    size = np.floor(counts * proportion).astype(np.int64)
    if (size[counts > 0] < 1).any():
        return None
    by_class, place = _shuffled_by_class(labels, seed)
    out = place < size[labels[by_class]]
    return np.sort(by_class[~out]), np.sort(by_class[out])


def fold_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Pick the number of folds of one split, if no other split is to be learnt from."""
    folds = options.get("folds")
    if folds is None:
        return {}
    if folds < 2:
        raise UsageError(f"--folds must be 2 or more, not {folds}.")
    for other in ("val_split", "fewshot_curve"):
        if options.get(other):
            raise UsageError(
                f"--folds and --{other} exclude each other.", advice="Folds learn and score in one split only."
            )
    return {"folds": folds, "train_split": None}


def fold_of(labels: Ints, digests: NDArray[np.uint8], folds: int, seed: int) -> Ints:
    """Deal samples to folds: those of one image together, and those of one class as evenly as can be.

    Raises:
        DataError: If there are fewer different images than folds.
    """
    _, first, number = np.unique(digests, axis=0, return_index=True, return_inverse=True)
    if len(first) < folds:
        raise DataError(f"{len(first)} different images do not make {folds} folds.", advice="Use fewer --folds.")
    by_class, _ = _shuffled_by_class(labels[first], seed)
    fold = np.empty(len(first), np.int64)
    fold[by_class] = np.arange(len(first)) % folds
    return np.asarray(fold[number.ravel()], np.int64)
