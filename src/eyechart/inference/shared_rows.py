"""Memory that processes share. It has no name, so there is nothing to remove: it is gone with the last who has it."""

from __future__ import annotations

import mmap
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eyechart.errors import OutOfMemoryError

AVAILABLE = hasattr(os, "memfd_create")
"""Only Linux has such memory."""


class SharedRows:
    """An array that processes see which were given it when they started."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.shape, self.dtype = shape, np.dtype(dtype)
        size = int(np.prod(shape)) * self.dtype.itemsize
        try:
            # Not in /dev/shm: containers have little of that, and a write beyond it ends the process.
            self._file = os.memfd_create("eyechart-rows")
            os.ftruncate(self._file, size)
            self.array: NDArray[Any] = np.ndarray(shape, self.dtype, mmap.mmap(self._file, size))
        except (OSError, ValueError) as error:
            raise OutOfMemoryError(f"There is no shared memory of {size} bytes ({error}).") from error

    def __getstate__(self) -> dict[str, Any]:
        """Send the memory, not what is in it: only to a process that is being started."""
        from multiprocessing.reduction import DupFd  # not on every system

        return {"shape": self.shape, "dtype": self.dtype, "file": DupFd(self._file)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Open the same memory in another process."""
        self.shape, self.dtype, self._file = state["shape"], state["dtype"], state["file"].detach()
        self.array = np.ndarray(self.shape, self.dtype, mmap.mmap(self._file, 0))

    def __del__(self) -> None:
        """Close the file; the memory stays as long as the array does."""
        if hasattr(self, "_file"):
            os.close(self._file)
