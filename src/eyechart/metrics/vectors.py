"""Operations on vectors, one or several per item: normalisation, averaging, duplicates, the k-th largest score."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar, cast, overload

import numpy as np
from numpy.typing import NDArray

from eyechart.errors import ModelError

Vectors = NDArray[np.float32]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class MultiVectors:
    """Items with any number of vectors each (late interaction), compared by MaxSim: see `eyechart.metrics.maxsim`."""

    rows: NDArray[Any]
    """The vectors of all items one after another, float32 or float16."""
    starts: Ints
    """First row of each item, and the number of rows."""

    @classmethod
    def of(cls, items: Sequence[NDArray[Any]], dim: int = 0) -> Self:
        """Join one array of shape (vectors, dim) per item; ``dim`` is for no items at all."""
        rows = np.concatenate([np.asarray(item) for item in items]) if items else np.empty((0, dim), np.float32)
        return cls(rows, _bounds([len(item) for item in items]))

    @classmethod
    def empty(cls, sizes: Ints, dim: int, dtype: Any = np.float32) -> Self:
        """Return items of these numbers of vectors, to be set."""
        return cls(np.empty((int(sizes.sum()), dim), dtype), _bounds(sizes))

    @property
    def sizes(self) -> Ints:
        """Number of vectors of each item."""
        return np.diff(self.starts)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of items and length of a vector."""
        return len(self), self.rows.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the numbers."""
        return self.rows.dtype

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, chosen: Any) -> MultiVectors:
        """Return some items, by a slice (without a copy), positions or a mask."""
        if isinstance(chosen, slice) and chosen.step in (None, 1):
            first, last, _ = chosen.indices(len(self))
            bounds = self.starts[first : max(first, last) + 1]
            return MultiVectors(self.rows[bounds[0] : bounds[-1]], bounds - bounds[0])
        places = np.arange(len(self))[chosen]
        if len(places) and np.array_equal(places, np.arange(places[0], places[0] + len(places))):
            return self[int(places[0]) : int(places[0]) + len(places)]
        return MultiVectors(self.rows[self._row_numbers(places)], _bounds(self.sizes[places]))

    def __setitem__(self, places: Ints, items: MultiVectors) -> None:
        """Set items to others with the same numbers of vectors."""
        self.rows[self._row_numbers(places)] = items.rows

    def _row_numbers(self, places: Ints) -> Ints:
        """Return the rows of the items at these positions, in their order."""
        sizes = self.sizes[places]
        skipped = self.starts[places] - (np.cumsum(sizes) - sizes)
        return np.repeat(skipped, sizes) + np.arange(sizes.sum())

    @property
    def arrays(self) -> list[NDArray[Any]]:
        """The vectors of each item, without a copy."""
        return np.split(self.rows, self.starts[1:-1]) if len(self) else []

    def averaged(self) -> MultiVectors:
        """Divide each vector by the number of vectors of its item: queries whose MaxSim is a mean (MeanMaxSim)."""
        return MultiVectors(np.asarray(self.rows / np.repeat(self.sizes, self.sizes)[:, None], np.float32), self.starts)

    def without_vectors(self) -> MultiVectors:
        """Return as many items that have no vector, which are never right."""
        return MultiVectors(self.rows[:0], np.zeros_like(self.starts))


AnyVectors = Vectors | MultiVectors
"""One vector per item, or several."""
_V = TypeVar("_V", bound=NDArray[Any] | MultiVectors)


def concatenate(parts: Sequence[Any]) -> Any:
    """Join vectors of the same kind, one or several per item; a single part is not copied."""
    if not isinstance(parts[0], MultiVectors):
        return parts[0] if len(parts) == 1 else np.concatenate(parts)
    rows = parts[0].rows if len(parts) == 1 else np.concatenate([part.rows for part in parts])
    return MultiVectors(rows, _bounds(np.concatenate([part.sizes for part in parts])))


def placed(parts: Sequence[tuple[Ints, MultiVectors]], count: int) -> MultiVectors:
    """Put items at their positions among ``count``; the others have no vector. A single complete part is not copied."""
    if len(parts) == 1 and np.array_equal(parts[0][0], np.arange(count)):
        return parts[0][1]
    sizes = np.zeros(count, np.int64)
    for places, items in parts:
        sizes[places] = items.sizes
    dims, types = [items.shape[1] for _, items in parts], [items.dtype for _, items in parts]
    out = MultiVectors.empty(sizes, max(dims, default=0), np.result_type(*types) if types else np.float32)
    for places, items in parts:
        out[places] = items
    return out


def _bounds(sizes: Sequence[int] | Ints) -> Ints:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


PLAIN_LENGTHS = (1e-15, 1e18)
"""Lengths at which the squares of a float32 row neither underflow nor overflow."""
PLAIN_NUMBERS = (2.0**-40, 2.0**40)
"""Range of a matrix's largest number within which its products fit into float32."""
GLANCE = 16
"""Number of columns that are compared first: rows that differ in them are distinct."""
PAIRS_BYTES = 1024 * 1024
"""Block size for the multiplication of single pairs."""
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


@overload
def unit(vectors: MultiVectors) -> MultiVectors: ...
@overload
def unit(vectors: Vectors) -> Vectors: ...
def unit(vectors: Any) -> Any:
    """Scale each row to unit length in float32, over the whole range of lengths. A zero row stays zero.

    Several vectors per item keep the lengths that the model gave them.

    Raises:
        ModelError: If a row holds NaN or infinity, which would win or lose every comparison.
    """
    if isinstance(vectors, MultiVectors):
        return vectors
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


def in_range(vectors: _V) -> _V:
    """Scale all rows by one power of two, if needed, so that their float32 products neither overflow nor underflow."""
    if isinstance(vectors, MultiVectors):
        return cast("_V", MultiVectors(in_range(vectors.rows), vectors.starts))
    largest = max(float(vectors.max(initial=0)), -float(vectors.min(initial=0)))
    if largest == 0 or PLAIN_NUMBERS[0] < largest < PLAIN_NUMBERS[1]:
        return vectors
    return cast("_V", np.ldexp(vectors, -math.frexp(largest)[1]))


def zero_rows(vectors: AnyVectors) -> Flags:
    """Whether each row is zero, or each item without a vector: it is similar to nothing and is never retrieved."""
    if isinstance(vectors, MultiVectors):
        filled = np.flatnonzero(vectors.sizes)
        zero = np.ones(len(vectors), bool)
        zero[filled] = ~np.logical_or.reduceat(vectors.rows.any(axis=1), vectors.starts[filled])
        return zero
    return np.asarray(~vectors.any(axis=1), bool)


def all_alike(vectors: AnyVectors) -> bool:
    """Whether all rows are the same up to rounding; for several vectors per item, also whether all items are."""
    if isinstance(vectors, MultiVectors):
        sizes = np.unique(vectors.sizes)
        whole = vectors.rows.reshape(len(vectors), -1) if len(sizes) == 1 else vectors.rows
        return len(vectors) > 1 and (all_alike(vectors.rows) or all_alike(whole))
    if len(vectors) < 2:
        return False
    room = ROUNDING * float(np.abs(vectors[0]).max(initial=0))
    parts = _parts(vectors, np.arange(len(vectors)))
    return all(bool((np.abs(vectors[part] - vectors[0]) <= room).all()) for part in parts)


def mean_of_units(units: Vectors, starts: Ints, normalize: Callable[[Vectors], Vectors] = unit) -> Vectors:
    """Average unit vectors over consecutive groups and renormalise: CLIP's prompt ensembling.

    ``starts`` are the first rows of the groups, which are not empty.
    """
    sizes = np.diff(np.append(starts, len(units)))
    sums = np.add.reduceat(units, starts, axis=0)
    return normalize(np.asarray(sums / sizes[:, None], np.float32))


def distinct_rows(vectors: AnyVectors) -> tuple[Ints, Ints, Ints]:
    """Find rows, or items with several vectors, that are bit-for-bit equal.

    Scores are computed once per distinct row, so that equal candidates tie exactly: a matrix product may round two
    equal columns differently, depending on their position.

    Return the first position of each distinct row (in order of appearance), the id of every row's distinct row, and the
    number of occurrences of each distinct row.
    """
    if isinstance(vectors, MultiVectors):
        blocks = (np.ascontiguousarray(item).data for item in vectors.arrays)
        digests = np.array([hashlib.blake2b(item, digest_size=16).digest() for item in blocks], "V16")
        _, first, inverse, counts = np.unique(digests, return_index=True, return_inverse=True, return_counts=True)
        return _in_order(first, inverse, counts)
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
    return _in_order(first, inverse, counts)


def _in_order(first: Ints, inverse: Ints, counts: Ints) -> tuple[Ints, Ints, Ints]:
    """Number distinct rows by their first appearance."""
    order = np.argsort(first)
    renumber = np.empty_like(order)
    renumber[order] = np.arange(len(order))
    return first[order], renumber[inverse], counts[order]


def row_dots(left: NDArray[Any], right: NDArray[Any], rows: Ints, columns: Ints) -> Floats:
    """Multiply chosen pairs of rows in float64, always in the same order: equal vectors give equal products."""
    out = np.empty(len(rows), np.float64)
    step = max(1, PAIRS_BYTES // (16 * max(1, right.shape[1])))
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        products = left[rows[part]].astype(np.float64)
        products *= right[columns[part]]
        out[part] = products.sum(axis=1)
    return out


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
