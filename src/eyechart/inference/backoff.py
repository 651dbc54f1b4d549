"""Batches that do not fit into memory are halved until they do, and stay at that size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eyechart.errors import ModelError, OutOfMemoryError
from eyechart.types import Notice

Vectors = NDArray[np.float32]


class BatchBackoff:
    """Runs an encoder on batches of a size that fits; what it finds out is kept for the batches to come."""

    def __init__(self) -> None:
        self.asked = 0
        self.size: int | None = None

    def run(self, encode: Callable[[Any], Vectors], items: Sequence[Any]) -> Vectors:
        """Encode all items, in one piece if that fits."""
        parts: list[Vectors] = []
        done = 0
        while done < len(items):
            part = items[done : done + (self.size or len(items))]
            try:
                # A copy: some runtimes give the same memory at every call.
                parts.append(np.array(encode(part), np.float32))
            except (OutOfMemoryError, MemoryError) as error:
                self._shrink(len(part), len(items), error)
            else:
                done += len(part)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _shrink(self, size: int, asked: int, error: Exception) -> None:
        if size == 1:
            raise ModelError(
                f"A single input does not fit into memory ({error}).",
                advice="Use a smaller model, --precision fp16 on a GPU, or another --device.",
            ) from error
        self.asked = max(self.asked, asked)
        self.size = size // 2

    def notices(self) -> list[Notice]:
        """Say so if a batch had to be made smaller."""
        if self.size is None:
            return []
        message = f"Batches of {self.asked} did not fit into memory; {self.size} at a time were encoded."
        return [Notice("smaller_batches", 1, message)]
