"""How many images a device is given at a time, where nobody said so: found by a short trial, once, and remembered.

After the first batches of a model that is new on this device, the size is doubled for as long as that pays: of each
size one batch is computed to warm up and one is timed; both are part of the run. The trial ends when the rate no longer
rises, when a batch does not fit, or when a vector depends on the size of its batch by more than rounding. A device that
has no `BatchTuning` keeps the size that it was given.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from eyechart.inference.backoff import BatchBackoff, Vectors
from eyechart.inference.device_feed import FULL, DeviceFeed, FeedDevice
from eyechart.io.files import write_cached
from eyechart.metrics.vectors import unit
from eyechart.models.towers.autotune import calibration_path
from eyechart.models.towers.cuda_feed import BatchTuning

AFTER = 16
"""Batches before anything is tried: a small run is over sooner than the trial would pay."""
GAIN = 1.05
"""How much faster a size must be than half of it."""
MOST = 512
"""Images of the largest batch: several of them lie in page-locked memory at a time."""

Item = TypeVar("Item")


@dataclass
class TrialStep:
    """A part of a run."""

    size: int
    samples: Iterator[Any]
    timed: bool


class BatchTrial:
    """Chooses the size of batches for one model on one device."""

    def __init__(self, tuning: BatchTuning, first: int, backoff: BatchBackoff) -> None:
        self.tuning, self.first, self.backoff = tuning, first, backoff
        self.path = calibration_path(["batch size", *tuning.key, first])
        known = _remembered(self.path)
        self.best = known or first
        """The fastest size so far."""
        self.size: int | None = None if known else first
        """The size that is being tried; None when the trial is over."""
        self._warm = False
        self._rate = 0.0

    def steps(self, samples: Iterator[Item]) -> Iterator[TrialStep]:
        """Cut a run into parts, each with its size of batches; the last one takes what is left."""
        if self.size is not None:
            yield TrialStep(self.first, islice(samples, AFTER * self.first), timed=False)
        while self.size is not None and self.backoff.size is None:
            samples, more = _is_left(samples)
            if not more:
                return
            # One batch to warm up, one to be timed; with a broken image among them it is tried again.
            yield TrialStep(self.size, islice(samples, 2 * self.size), timed=True)
        yield TrialStep(self.best, samples, timed=False)

    def run(self, encode: Callable[[Any], Vectors], batch: Sequence[Any]) -> Vectors:
        """Compute a batch of the size that is being tried; what that shows decides on the next."""
        if self.size is None or len(batch) != self.size:
            return self._in_known_size(encode, batch)
        start = self.tuning.clock()
        try:
            vectors = np.array(encode(batch), np.float32)
            seconds = self.tuning.clock() - start
            alone = vectors if self._warm else np.array(encode(batch[: self.first]), np.float32)
        except FULL:
            self._end()
            return self._in_known_size(encode, batch)
        if np.abs(unit(vectors[: self.first]) - unit(alone[: self.first])).max() > self.tuning.rounding:
            self._end()
            return self._in_known_size(encode, batch)
        if self._warm:
            self._next(len(batch) / seconds)
        else:
            self._warm = True
        return vectors

    def _next(self, rate: float) -> None:
        """Go on with twice the size, if this one was worth it."""
        size, self._warm = self.size or self.first, False
        if rate < GAIN * self._rate:
            self._end()
            return
        self.best, self._rate, self.size = size, rate, 2 * size
        if self.size > MOST:
            self._end()

    def _end(self) -> None:
        self.size = None
        write_cached(self.path, json.dumps({"batch_size": self.best}).encode())

    def _in_known_size(self, encode: Callable[[Any], Vectors], batch: Sequence[Any]) -> Vectors:
        known = BatchBackoff()  # not the run's own: a size that was only tried is nothing to report
        known.size = self.best
        return known.run(encode, batch)


class TrialFeed(DeviceFeed):
    """Computes one batch after the other, so that each can be timed."""

    def __init__(self, trial: BatchTrial, device: FeedDevice, backoff: BatchBackoff) -> None:
        super().__init__(device, backoff)
        self.trial = trial

    def put(self, tag: Any, batch: Sequence[Any]) -> Iterator[tuple[Any, Vectors]]:
        """Compute a batch now."""
        yield tag, self.trial.run(self._now, batch)


def _is_left(items: Iterator[Item]) -> tuple[Iterator[Item], bool]:
    """Tell whether there is another item, without losing it."""
    for item in items:
        return chain([item], items), True
    return items, False


def _remembered(path: Path) -> int | None:
    if not path.is_file():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))["batch_size"]
    except (ValueError, TypeError, KeyError):
        # Not written by this version: tried again, it costs a few batches.
        return None
    return found if isinstance(found, int) and 1 <= found <= MOST else None
