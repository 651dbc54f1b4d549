"""Memory for prepared images, used again: fresh memory for each image costs a tenth of the time that it takes.

The threads or processes that prepare images write them side by side, so that nobody has to put a batch together.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eyechart.errors import OutOfMemoryError

Memory = Callable[[tuple[int, ...], np.dtype[Any]], NDArray[Any]]


class BatchRows:
    """Numbered rows for images of one shape; an image that does not fit in, or has no row, stays where it is.

    Rows are taken and given back by one thread, and filled by others.
    """

    def __init__(self, rows: int, memory: Memory = np.empty) -> None:
        self._free = deque(range(rows))
        self._rows = rows
        self._memory = memory
        self._array: NDArray[Any] | None = None
        self._making = threading.Lock()

    def take(self) -> int | None:
        """Take the number of a free row. They come round in order, so that a batch is a piece of the memory."""
        return self._free.popleft() if self._free else None

    def give_back(self, numbers: Iterable[int | None]) -> None:
        """Let rows be used again."""
        self._free.extend(number for number in numbers if number is not None)

    def fill(self, number: int | None, image: NDArray[Any]) -> NDArray[Any]:
        """Return the image in its row, if it fits there."""
        if number is None or not isinstance(image, np.ndarray) or image.dtype.hasobject:
            return image
        array = self._made_for(image)
        if (array.shape[1:], array.dtype) != (image.shape, image.dtype):
            return image
        row: NDArray[Any] = array[number]
        row[...] = image
        return row

    def _made_for(self, image: NDArray[Any]) -> NDArray[Any]:
        with self._making:
            if self._array is None:
                try:
                    self._array = self._memory((self._rows, *image.shape), image.dtype)
                except (MemoryError, OutOfMemoryError):
                    # Images of many megapixels that nobody made smaller: fewer of them may fit, each on its own.
                    self._array = np.empty(0, np.uint8)
            return self._array

    def row(self, number: int | None) -> NDArray[Any]:
        """Return a row that another process has filled."""
        if number is None or self._array is None:
            raise ValueError("There is no such row, so nobody can have filled it.")
        filled: NDArray[Any] = self._array[number]
        return filled

    def batch(self, numbers: Sequence[int | None], images: Sequence[NDArray[Any]]) -> Any:
        """Return the images as one array, without a copy where they lie side by side; or a list, of several shapes."""
        start, array = numbers[0], self._array
        if start is not None and array is not None and all(image.base is array for image in images):
            wanted = range(start, start + len(numbers))
            if list(numbers) == list(wanted):
                return array[wanted.start : wanted.stop]
        return stack(images)


def stack(images: Sequence[NDArray[Any]]) -> Any:
    """Put prepared images into one array; images of different shapes stay a list."""
    if len({image.shape for image in images}) == 1:
        return np.stack(images)
    return list(images)
