"""Time per phase of a job, and the estimated time of the remaining jobs."""

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeVar

PHASES = {
    "load": "loading the model",
    "read": "reading the dataset",
    "decode": "decoding images (in workers, in parallel)",
    "transform": "transforming images (in workers, in parallel)",
    "wait": "waiting for images to be ready",
    "encode images": "the image tower",
    "encode texts": "the text tower, with its tokenizer",
    "store": "reading and writing stored vectors",
    "score": "scoring",
}
"""Phases in display order. Those of the workers overlap with the others."""

T = TypeVar("T")


@dataclass
class Stopwatch:
    """Accumulates wall-clock seconds per phase; thread-safe."""

    _seconds: dict[str, float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the time of the block to a phase."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.add(name, time.perf_counter() - start)

    def add(self, name: str, seconds: float) -> None:
        """Add externally measured seconds."""
        with self._lock:
            self._seconds[name] = self._seconds.get(name, 0.0) + seconds

    def each(self, name: str, items: Iterable[T]) -> Iterator[T]:
        """Yield items, adding the time to produce each one."""
        iterator = iter(items)
        while True:
            with self.phase(name):
                try:
                    item = next(iterator)
                except StopIteration:
                    return
            yield item

    def taken(self) -> dict[str, float]:
        """Return the unrounded phases, for another stopwatch to add."""
        return dict(self._seconds)

    def seconds(self) -> dict[str, float]:
        """Return the phases that took time, in the order of `PHASES`."""
        return {name: round(self._seconds[name], 4) for name in PHASES if name in self._seconds}


@dataclass
class JobClock:
    """Counts the jobs of a run and extrapolates the remaining time."""

    total: int
    done: int = 0
    _ran: int = 0
    _seconds: float = 0.0
    _since: float = field(default_factory=time.monotonic)

    def finish(self, *, skipped: bool = False) -> None:
        """Count a job; a skipped one does not enter the estimate."""
        now = time.monotonic()
        self.done += 1
        if not skipped:
            self._ran += 1
            self._seconds += now - self._since
        self._since = now

    @property
    def left(self) -> float | None:
        """Estimated seconds until the last job is done; None before the first one is."""
        if not self._ran or self.done >= self.total:
            return None
        each = self._seconds / self._ran
        running = min(time.monotonic() - self._since, each)
        return (self.total - self.done) * each - running


def timestamp(seconds: float | None = None) -> str:
    """Format a time, by default now, in UTC and ISO 8601; the texts sort like the times."""
    moment = datetime.now(UTC) if seconds is None else datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="milliseconds")


def duration(seconds: float) -> str:
    """Format a duration: ``0.4 s``, ``12 s``, ``4 min``, ``1 h 20 min``."""
    if seconds < 59.5:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
