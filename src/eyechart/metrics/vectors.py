"""Vectors: unit length, averaging, and exact duplicates."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]


def unit(vectors: Vectors) -> Vectors:
    """Scale each row to length one, in float32. A zero row stays zero: it is similar to nothing."""
    vectors = np.asarray(vectors, np.float32)
    norm = np.linalg.norm(vectors, axis=-1, keepdims=True)
    out = np.zeros_like(vectors)
    np.divide(vectors, norm, out=out, where=norm > 0)
    return out


def mean_of_units(vectors: Vectors, starts: NDArray[np.int64]) -> Vectors:
    """Average unit vectors over consecutive groups and renormalise: prompt ensembling as CLIP does it.

    Args:
        vectors: All rows, group after group.
        starts: The first row of each group; no group is empty.
    """
    units = unit(vectors)
    sizes = np.diff(np.append(starts, len(units)))
    sums = np.add.reduceat(units, starts, axis=0)
    return unit(np.asarray(sums / sizes[:, None], np.float32))


def distinct_rows(vectors: Vectors) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Find rows that are bit-for-bit equal.

    Scores are computed once per distinct row, so that equal candidates tie exactly: a matrix product may round
    two equal columns differently, depending on where they stand.

    Returns:
        The first position of each distinct row (in order of appearance), for every row the number of its
        distinct row, and how often each distinct row occurs.
    """
    rows = np.ascontiguousarray(vectors)
    _, first, inverse, counts = np.unique(_codes(rows), return_index=True, return_inverse=True, return_counts=True)
    several = np.flatnonzero(counts[inverse] > 1)
    if any(
        not np.array_equal(rows[part], rows[first[inverse[part]]], equal_nan=True) for part in _parts(rows, several)
    ):
        # Two rows share a code by accident: compare them whole.
        whole = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
        _, first, inverse, counts = np.unique(whole, return_index=True, return_inverse=True, return_counts=True)
    order = np.argsort(first)
    renumber = np.empty_like(order)
    renumber[order] = np.arange(len(order))
    return first[order], renumber[inverse], counts[order]


def _codes(rows: Vectors) -> NDArray[np.uint64]:
    """Give each row a number: whole-number arithmetic, so equal rows have equal numbers wherever they stand."""
    bits = rows.view(np.uint32)
    factors = np.random.default_rng(0).integers(0, 2**64, bits.shape[1], np.uint64)
    parts = _parts(rows, np.arange(len(rows)))
    return np.concatenate([np.empty(0, np.uint64), *(bits[part].astype(np.uint64) @ factors for part in parts)])


def _parts(rows: Vectors, chosen: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Cut the numbers of chosen rows into parts whose rows have a few megabytes."""
    step = max(1, 2**20 // max(1, rows.shape[1]))
    return (chosen[start : start + step] for start in range(0, len(chosen), step))
