"""Vectors in half precision (fp16): half the disk, in tables of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eyechart.errors import ModelError

FARTHEST = 2.0**-10
"""How far a rounded vector may be from the full one, as a share of its length: twice what rounding does in range."""


def rounded(vectors: NDArray[Any]) -> NDArray[np.float16]:
    """Round vectors to half precision.

    Raises:
        ModelError: If numbers are too large or too small for it.
    """
    with np.errstate(over="ignore"):
        half = vectors.astype(np.float16)
    lost = vectors - half
    bad = ~(_squares(lost) <= FARTHEST**2 * _squares(vectors))
    if bad.any():
        raise ModelError(
            f"{int(bad.sum())} of {len(vectors)} vectors hold numbers that half precision cannot keep.",
            advice="Leave out --store-precision fp16 for this model. Nothing of these was stored.",
        )
    return half


def _squares(rows: NDArray[Any]) -> NDArray[np.float64]:
    """Sum squares in float64, where those of no number of float32 are too large or vanish."""
    sums: NDArray[np.float64] = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
    return sums
