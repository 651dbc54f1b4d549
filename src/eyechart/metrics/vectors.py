"""Operations on vectors: normalisation, averaging, exact duplicates, collapsed rows, and the k-th largest score."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eyechart.errors import ModelError

Vectors = NDArray[np.float32]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

PLAIN_LENGTHS = (1e-15, 1e18)
"""Lengths at which the squares of a float32 row neither underflow nor overflow."""
PLAIN_NUMBERS = (2.0**-40, 2.0**40)
"""Range of a matrix's largest number within which its products fit into float32."""
GLANCE = 16
"""Number of columns that are compared first: rows that differ in them are distinct."""
ROUNDING = 2.0**-22
"""Maximal difference, relative to the largest number, between rows that are equal up to scaling or rounding."""


def float_array(rows: Any) -> Vectors:
    """Convert an array, a tensor, or a list of either to one float32 array.

    Raises:
        TypeError, ValueError: If the rows are not real numbers or have different lengths.
    """
    parts = rows if isinstance(rows, list | tuple) else [rows]
    if parts and all(hasattr(part, "detach") for part in parts):
        arrays = [part.detach().float().cpu().numpy() for part in parts]
        rows = arrays if parts is rows else arrays[0]
    if np.iscomplexobj(rows):
        raise TypeError("complex numbers")
    return np.asarray(rows, np.float32)


def unit(vectors: Vectors) -> Vectors:
    """Scale each row to unit length in float32, over the whole range of lengths. A zero row stays zero.

    Raises:
        ModelError: If a row holds NaN or infinity, which would win or lose every comparison.
    """
    vectors = np.asarray(vectors, np.float32)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        norm = np.linalg.norm(vectors, axis=-1, keepdims=True)
    plain = (norm > PLAIN_LENGTHS[0]) & (norm < PLAIN_LENGTHS[1])
    out = np.zeros_like(vectors)
    np.divide(vectors, norm, out=out, where=plain)
    odd = ~plain[..., 0]
    if odd.any():  # very long, very short or zero rows are normalised in float64
        rows = vectors[odd].astype(np.float64)
        bad = int((~np.isfinite(rows).all(axis=-1)).sum())
        if bad:
            raise ModelError(
                "{bad} vectors contain NaN or infinite values.", advice="Check the weights and the precision.", bad=bad
            )
        norm = np.linalg.norm(rows, axis=-1, keepdims=True)
        out[odd] = np.divide(rows, norm, out=rows, where=norm > 0)
    return out


def in_range(vectors: Vectors) -> Vectors:
    """Scale all rows by one power of two, if needed, so that their float32 products neither overflow nor underflow."""
    largest = max(float(vectors.max(initial=0)), -float(vectors.min(initial=0)))
    if largest == 0 or PLAIN_NUMBERS[0] < largest < PLAIN_NUMBERS[1]:
        return vectors
    return np.ldexp(vectors, -math.frexp(largest)[1])


def zero_rows(vectors: Vectors) -> Flags:
    """Whether each row is zero: such a vector is similar to nothing and is never retrieved."""
    return np.asarray(~vectors.any(axis=1), bool)


def all_alike(vectors: Vectors) -> bool:
    """Whether all rows are the same up to rounding."""
    if len(vectors) < 2:
        return False
    room = ROUNDING * float(np.abs(vectors[0]).max(initial=0))
    parts = _parts(vectors, np.arange(len(vectors)))
    return all(bool((np.abs(vectors[part] - vectors[0]) <= room).all()) for part in parts)


def mean_of_units(units: Vectors, starts: Ints, normalize: Callable[[Vectors], Vectors] = unit) -> Vectors:
    """Average unit vectors over consecutive groups and renormalise: CLIP's prompt ensembling.

    Args:
        units: Unit vectors, group after group.
        starts: First row of each group; groups are not empty.
        normalize: How the means are normalised.
    """
    sizes = np.diff(np.append(starts, len(units)))
    sums = np.add.reduceat(units, starts, axis=0)
    return normalize(np.asarray(sums / sizes[:, None], np.float32))


def distinct_rows(vectors: Vectors) -> tuple[Ints, Ints, Ints]:
    """Find rows that are bit-for-bit equal.

    Scores are computed once per distinct row, so that equal candidates tie exactly: a matrix product may round two
    equal columns differently, depending on their position.

    Returns:
        The first position of each distinct row (in order of appearance), the id of every row's distinct row, and the
            number of occurrences of each distinct row.
    """
    rows = np.ascontiguousarray(vectors)
    everything = np.arange(len(rows))
    if len(np.unique(_codes(rows[:, :: max(1, rows.shape[1] // GLANCE)]))) == len(rows):
        return everything, everything, np.ones(len(rows), np.int64)
    _, first, inverse, counts = np.unique(_codes(rows), return_index=True, return_inverse=True, return_counts=True)
    several = np.flatnonzero(counts[inverse] > 1)
    if any(
        not np.array_equal(rows[part], rows[first[inverse[part]]], equal_nan=True) for part in _parts(rows, several)
    ):
        # Hash collision: compare whole rows.
        whole = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
        _, first, inverse, counts = np.unique(whole, return_index=True, return_inverse=True, return_counts=True)
    order = np.argsort(first)
    renumber = np.empty_like(order)
    renumber[order] = np.arange(len(order))
    return first[order], renumber[inverse], counts[order]


def _codes(rows: Vectors) -> NDArray[np.uint64]:
    """Hash each row by integer arithmetic, so that equal rows have equal hashes at any position."""
    bits = np.ascontiguousarray(rows).view(np.uint32)
    factors = np.random.default_rng(0).integers(0, 2**64, bits.shape[1], np.uint64)
    out = np.empty(len(rows), np.uint64)
    for part in _parts(rows, np.arange(len(rows))):
        out[part] = bits[part].astype(np.uint64) @ factors
    return out


def _parts(rows: Vectors, chosen: Ints) -> Iterator[Ints]:
    """Split the numbers of chosen rows into parts of a few megabytes."""
    step = max(1, 2**20 // max(1, rows.shape[1]))
    for start in range(0, len(chosen), step):
        yield chosen[start : start + step]


def kth_largest(scores: NDArray[Any], k: int) -> NDArray[Any]:
    """Return the k-th largest number of each row, like `numpy.partition`, but without moving all others.

    The k-th largest of the maxima of a row's parts is a lower bound: only numbers that reach it are sorted.
    """
    rows, n = scores.shape
    parts = 4 * k
    if n < 8 * parts:
        return _by_partition(scores, k)
    tops = scores[:, :parts].copy()
    for start in range(parts, n - parts + 1, parts):
        np.maximum(tops, scores[:, start : start + parts], out=tops)
    reaching = scores >= _by_partition(tops, k)[:, None]
    if np.count_nonzero(reaching) > rows * 2 * parts:  # many are equal
        return _by_partition(scores, k)
    row, column = np.nonzero(reaching)
    values = scores[row, column]
    ordered = values[np.lexsort((-values, row))]
    return ordered[np.searchsorted(row, np.arange(rows)) + k - 1]


def _by_partition(scores: NDArray[Any], k: int) -> NDArray[Any]:
    place = scores.shape[1] - k
    return np.partition(scores, place, axis=1)[:, place]
