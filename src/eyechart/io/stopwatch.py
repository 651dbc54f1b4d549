"""Where the time of a job went, phase by phase."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

PHASES = {
    "load": "loading the model",
    "read": "reading the dataset",
    "decode": "decoding images (in worker threads, beside the rest)",
    "transform": "transforming images (in worker threads, beside the rest)",
    "wait": "waiting for images to be ready",
    "encode images": "the image tower",
    "encode texts": "the text tower, with its tokenizer",
    "store": "reading and writing stored vectors",
    "score": "scoring",
}
"""The phases, in the order of a table. Those of the worker threads overlap with the others."""

T = TypeVar("T")


class Stopwatch:
    """Adds up wall-clock seconds per phase; several threads may use it at once."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._lock = threading.Lock()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the time of the block to a phase."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.add(name, time.perf_counter() - start)

    def add(self, name: str, seconds: float) -> None:
        """Add seconds that were measured elsewhere."""
        with self._lock:
            self._seconds[name] = self._seconds.get(name, 0.0) + seconds

    def each(self, name: str, items: Iterable[T]) -> Iterator[T]:
        """Yield items, adding the time that each one took to come."""
        iterator = iter(items)
        while True:
            with self.phase(name):
                try:
                    item = next(iterator)
                except StopIteration:
                    return
            yield item

    def seconds(self) -> dict[str, float]:
        """Return the phases that took time, in the order of `PHASES`."""
        return {name: round(self._seconds[name], 4) for name in PHASES if name in self._seconds}
