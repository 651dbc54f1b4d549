"""Compressed vectors: their first dimensions only, int8 codes, or binary codes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from eyechart.metrics.vectors import Vectors, unit, zero_rows

BITS = {"float32": 32, "float16": 16, "int8": 8, "binary": 1}
"""Bits per dimension, by precision."""
ROWS = 16_384
"""Vectors that are compressed at a time."""


@dataclass
class Compression:
    """How stored vectors are compressed before they are compared; by default not at all.

    Directions are compressed; except for binary codes, a vector keeps its length, as a dot product needs it.
    """

    precision: str = "float32"
    """``float32`` or ``float16`` (that of the store), ``int8`` or ``binary``."""
    dim: int | None = None
    """Number of leading dimensions that are kept; None for all."""
    calibrates: bool = False
    """Whether `ranges` are extended to every vector that passes."""
    ranges: Vectors | None = None
    """Minimum and maximum of each dimension, for int8 codes."""

    def apply(self, vectors: Vectors) -> Vectors:
        """Return the vectors as they are compared: codes are decoded."""
        whole = self.dim is None and BITS[self.precision] > 8
        if whole and not self.calibrates:
            return vectors
        out = vectors if whole else np.empty((len(vectors), self.dim or vectors.shape[1]), np.float32)
        for start in range(0, len(vectors), ROWS):
            part = slice(start, start + ROWS)
            rows = unit(vectors[part, : self.dim])
            length = np.linalg.norm(vectors[part].astype(np.float64), axis=1, keepdims=True).astype(np.float32)
            if self.calibrates:
                seen = rows if self.ranges is None else np.vstack([self.ranges, rows])
                self.ranges = np.stack([seen.min(axis=0), seen.max(axis=0)])
            if self.precision == "int8":
                if self.ranges is None:
                    raise ValueError("int8 codes need ranges")
                codes = int8_codes(rows, self.ranges)
                rows = np.where(zero_rows(rows)[:, None], 0, decode_int8(codes, self.ranges))
            if self.precision == "binary":
                out[part] = binary_codes(rows)
            elif not whole:
                out[part] = rows * length
        return out

    def unit(self, vectors: Vectors) -> Vectors:
        """Scale rows to unit length; binary codes to one length of at most 1 that keeps their products exact."""
        return binary_codes(unit(vectors)) if self.precision == "binary" else unit(vectors)

    def variants(self, dims: Sequence[int], precisions: Sequence[str]) -> Iterator[Compression]:
        """Yield each dimension in each precision, but for the full vectors.

        Floating-point vectors come first: int8 codes are calibrated on those of the same dimension.
        """
        for dim in (None, *dims):
            floats = self if dim is None else replace(self, dim=dim, ranges=None)
            if dim is not None:
                yield floats
            for precision in precisions:
                yield replace(floats, precision=precision, calibrates=False)


def int8_codes(rows: Vectors, ranges: Vectors) -> NDArray[np.int8]:
    """Quantise each dimension to 256 levels between its minimum and maximum, as sentence-transformers does."""
    steps = (ranges[1] - ranges[0]) / np.float32(255)
    levels = np.floor((rows - ranges[0]) / np.where(steps == 0, 1, steps))
    return np.asarray(np.clip(levels, 0, 255) - 128, np.int8)


def decode_int8(codes: NDArray[np.int8], ranges: Vectors) -> Vectors:
    """Return the middle of each code's level; the value itself if a dimension is constant."""
    return np.asarray((codes + np.float32(128.5)) * (ranges[1] - ranges[0]) / 255 + ranges[0], np.float32)


def binary_codes(rows: Vectors) -> Vectors:
    """Return the signs of each row, times a power of two; a zero row stays zero.

    Dot products of these are exact in float32, so that codes of equal Hamming distance tie.
    """
    value = np.float32(2.0 ** -math.ceil(math.log2(max(1, rows.shape[1])) / 2))
    return np.where(zero_rows(rows)[:, None], np.float32(0), np.where(rows > 0, value, -value))
