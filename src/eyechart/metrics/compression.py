"""Compressed vectors: their first dimensions only, int8 codes, or binary codes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eyechart.metrics.vectors import Vectors, unit, zero_rows

BITS = {"float32": 32, "float16": 16, "int8": 8, "binary": 1}
"""Bits per dimension, by precision."""
ROWS = 16_384
"""Vectors that are compressed at a time."""


@dataclass
class Compression:
    """How the vectors of a store are compressed before they are compared; by default not at all.

    Each vector keeps its length, so that unit vectors stay unit vectors and dot products keep their scale.
    """

    precision: str = "float32"
    """``float32`` or ``float16`` (that of the store), ``int8`` or ``binary``."""
    dim: int | None = None
    """Number of leading dimensions that are kept; None for all."""
    by_cosine: bool = True
    """Whether directions are quantised; otherwise the vectors themselves, for models compared by dot product."""
    ranges: Vectors | None = None
    """Minimum and maximum of each dimension, for int8 codes."""
    calibrates: bool = False
    """Whether `ranges` grow to cover every vector that passes."""
    widest: int = 0
    """The largest dimension of a run; a model with fewer is an error."""

    def size_in_bytes(self, dim: int) -> int:
        """Return the bytes of one stored vector of a model with ``dim`` dimensions."""
        return -(-(self.dim or dim) * BITS[self.precision] // 8)

    def apply(self, vectors: Vectors) -> Vectors:
        """Return the vectors as they are compared: codes are decoded."""
        whole = self.dim is None and self.precision in ("float32", "float16")
        if whole and not self.calibrates:
            return vectors
        out = vectors if whole else np.empty((len(vectors), self.dim or vectors.shape[1]), np.float32)
        for start in range(0, len(vectors), ROWS):
            part = slice(start, start + ROWS)
            rows = unit(vectors[part, : self.dim])
            if self.precision == "binary":
                out[part] = binary_codes(rows)
                continue
            length = np.linalg.norm(vectors[part].astype(np.float64), axis=1, keepdims=True)
            rows = rows if self.by_cosine else np.asarray(rows * length, np.float32)
            if self.calibrates:
                seen = [rows] if self.ranges is None else [rows, self.ranges]
                self.ranges = np.stack([np.min([r.min(0) for r in seen], 0), np.max([r.max(0) for r in seen], 0)])
            if self.precision == "int8" and self.ranges is not None:
                empty = zero_rows(rows)
                rows = decode_int8(int8_codes(rows, self.ranges), self.ranges)
                rows[empty] = 0
            if not whole:
                out[part] = rows * length if self.by_cosine else rows
        return out

    def unit(self, vectors: Vectors) -> Vectors:
        """Scale rows to unit length; binary codes to one length of at most 1 that keeps their products exact."""
        return binary_codes(unit(vectors)) if self.precision == "binary" else unit(vectors)


def int8_codes(rows: Vectors, ranges: Vectors) -> NDArray[np.int8]:
    """Quantise each dimension to 256 levels between its minimum and maximum, like sentence-transformers."""
    steps = _steps(ranges)
    levels = np.floor((rows - ranges[0]) / np.where(steps == 0, 1, steps))
    return np.asarray(np.clip(levels, 0, 255) - 128, np.int8)


def decode_int8(codes: NDArray[np.int8], ranges: Vectors) -> Vectors:
    """Return the middle of each code's level; the value itself if a dimension is constant."""
    return np.asarray((codes + np.float32(128.5)) * _steps(ranges) + ranges[0], np.float32)


def _steps(ranges: Vectors) -> Vectors:
    return np.asarray((ranges[1] - ranges[0]) / 255, np.float32)


def binary_codes(rows: Vectors) -> Vectors:
    """Return the signs of each row, times a power of two; a zero row stays zero.

    Dot products of these are exact in float32, so that codes of equal Hamming distance tie.
    """
    value = np.float32(2.0 ** -math.ceil(math.log2(max(1, rows.shape[1])) / 2))
    codes = np.where(rows > 0, value, -value)
    codes[zero_rows(rows)] = 0
    return codes


def compressions(full: Compression, dims: Sequence[int], precisions: Sequence[str]) -> Iterator[Compression]:
    """Yield each dimension in each precision, but for the full vectors.

    The int8 codes of a dimension are calibrated on the floating-point vectors of that dimension, which come first.
    """
    for dim in (None, *dims):
        floats = full if dim is None else Compression(full.precision, dim, full.by_cosine, None, full.calibrates)
        if dim is not None:
            yield floats
        for precision in precisions:
            yield Compression(precision, dim, full.by_cosine, floats.ranges)
