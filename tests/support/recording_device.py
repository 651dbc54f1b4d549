"""A device for tests: its two streams are threads, and it writes down what was asked of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np

from eyechart.errors import OutOfMemoryError
from eyechart.models.towers.cuda_feed import BatchTuning


class RecordingDevice:
    """Copies in one thread and computes in another, as a GPU does; the host waits only where it fetches."""

    ahead = 1

    def __init__(
        self,
        encode: Callable[[Any], Any],
        prepare: Callable[[Any], Any] = np.asarray,
        *,
        copying: Callable[[int], object] = bool,
        computing: Callable[[int], object] = bool,
        room: int | None = None,
        tuning: BatchTuning | None = None,
    ) -> None:
        self.encode, self.prepare, self.memory = encode, prepare, np.empty
        self.copying, self.computing = copying, computing
        self.tuning = tuning
        self.room = room
        """Rows that fit on the device at a time."""
        self.asked: list[tuple[str, int]] = []
        self.sizes: list[int] = []
        """Rows of the batches that were computed."""
        self._rows: dict[int, int] = {}
        self._streams = [ThreadPoolExecutor(1), ThreadPoolExecutor(1)]
        self._next = 0

    @contextmanager
    def locked(self, memory: Any) -> Iterator[None]:
        self.asked.append(("lock", len(memory)))
        yield
        self.asked.append(("unlock", len(memory)))

    def copy(self, batch: Any) -> tuple[int, Future[Any]]:
        number, self._next = self._next, self._next + 1
        self.asked.append(("copy", number))
        if self.room is not None and sum(self._rows.values()) + len(batch) > self.room:
            raise OutOfMemoryError("full")
        self._rows[number] = len(batch)
        return number, self._streams[0].submit(self._copy, number, batch)

    def _copy(self, number: int, batch: Any) -> Any:
        self.copying(number)
        return batch.copy()

    def launch(self, copied: tuple[int, Future[Any]]) -> tuple[int, Future[Any]]:
        number, batch = copied
        self.asked.append(("launch", number))
        return number, self._streams[1].submit(self._compute, number, batch)

    def _compute(self, number: int, batch: Future[Any]) -> Any:
        there = batch.result()
        self.sizes.append(len(there))
        self.computing(number)
        return self.encode(there)

    def fetch(self, launched: tuple[int, Future[Any]]) -> Any:
        number, vectors = launched
        self.asked.append(("wait", number))
        found = vectors.result()
        del self._rows[number]
        return found
