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
    lost = np.linalg.norm(vectors - half.astype(np.float32), axis=1)
    bad = ~(lost <= FARTHEST * np.linalg.norm(vectors, axis=1))
    if bad.any():
        raise ModelError(
            f"{int(bad.sum())} of {len(vectors)} vectors hold numbers that half precision cannot keep.",
            advice="Leave out --store-precision fp16 for this model. Nothing of these was stored.",
        )
    return half
