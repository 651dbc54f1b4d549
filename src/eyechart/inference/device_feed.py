"""Batches on their way through a device: while it computes one, the next is being copied to it.

Every action on a device goes through the methods of a `FeedDevice`; `DeviceFeed` decides on their order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from eyechart.errors import OutOfMemoryError
from eyechart.inference.backoff import BatchBackoff, Vectors
from eyechart.models.towers.cuda_feed import BatchTuning
from eyechart.types import Encoder

FULL = (OutOfMemoryError, MemoryError)


def device_of(encoder: Any) -> FeedDevice:
    """Return the encoder's own device, if it has one that is fed ahead; its first results are checked, if need be."""
    own = getattr(encoder, "image_device", None)
    device: FeedDevice = (own() if own is not None else None) or PlainDevice(encoder)
    check = getattr(encoder, "paired_check", None)
    return PairedDevice(device, check) if check is not None and check.due else device


class FeedDevice(Protocol):
    """Where batches are computed. Only `fetch` waits."""

    ahead: int
    """How many batches may be under way when the results of one are fetched."""
    tuning: BatchTuning | None
    """For a trial of batch sizes; None for a device that has none."""

    def prepare(self, image: Any) -> NDArray[Any]:
        """Transform one decoded image to what is copied. Called from several threads."""

    def memory(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return memory from which the device copies fastest."""

    def locked(self, memory: NDArray[Any]) -> AbstractContextManager[None]:
        """Make memory that came from elsewhere as good as `memory`'s, until the end."""

    def copy(self, batch: Any) -> Any:
        """Begin to copy a batch to the device; the batch must not change before its results were fetched."""

    def launch(self, copied: Any) -> Any:
        """Begin to compute as soon as the copy has arrived."""

    def fetch(self, launched: Any) -> Vectors:
        """Wait for the results."""


class PlainDevice:
    """A device that computes at once, by one call: a model on the CPU, or behind a library of its own."""

    ahead = 0
    tuning: BatchTuning | None = None

    def __init__(self, encoder: Encoder) -> None:
        self.prepare = getattr(encoder, "sendable_transform", encoder.prepare_image)
        self.launch = encoder.encode_images
        self.memory = np.empty

    def locked(self, memory: NDArray[Any]) -> AbstractContextManager[None]:  # noqa: ARG002 - any memory will do
        """Leave the memory as it is."""
        return nullcontext()

    def copy(self, batch: Any) -> Any:
        """Leave the batch where it is."""
        return batch

    def fetch(self, launched: Vectors) -> Vectors:
        """Return what was computed."""
        return launched


class Watcher(Protocol):
    """Sees batches with their vectors."""

    def see(self, batch: Any, vectors: Vectors) -> None:
        """Take a batch as it went to the device, and what came back."""


class PairedDevice:
    """A device whose results somebody sees before they are handed out."""

    def __init__(self, device: FeedDevice, watcher: Watcher) -> None:
        self.ahead, self.prepare, self.memory = device.ahead, device.prepare, device.memory
        self.tuning, self.locked = device.tuning, device.locked
        self._device, self._watcher = device, watcher

    def copy(self, batch: Any) -> Any:
        """Keep the batch beside its copy."""
        return batch, self._device.copy(batch)

    def launch(self, copied: Any) -> Any:
        """Begin to compute."""
        batch, there = copied
        return batch, self._device.launch(there)

    def fetch(self, launched: Any) -> Vectors:
        """Wait for the results, and show them."""
        batch, under_way = launched
        vectors = self._device.fetch(under_way)
        self._watcher.see(batch, vectors)
        return vectors


class DeviceFeed:
    """Gives batches to a device and results back, in order, each with the tag of its batch.

    A batch that does not fit beside the one before it ends the overlap; one that does not fit alone is made smaller.
    """

    def __init__(self, device: FeedDevice, backoff: BatchBackoff) -> None:
        self.device = device
        self.backoff = backoff
        self.ahead = device.ahead
        self._under_way: deque[tuple[Any, Any, Any]] = deque()

    def put(self, tag: Any, batch: Sequence[Any]) -> Iterator[tuple[Any, Vectors]]:
        """Give a batch; yield the results of those that are finished. To be iterated to its end."""
        if not self.ahead:
            yield tag, self.backoff.run(self._now, batch)
            return
        try:
            launched = self.device.launch(self.device.copy(batch))
        except FULL:
            self.ahead = 0
            yield from self.drain()
            yield tag, self.backoff.run(self._now, batch)
            return
        self._under_way.append((tag, batch, launched))
        if len(self._under_way) > self.ahead:
            yield self._fetch()

    def drain(self) -> Iterator[tuple[Any, Vectors]]:
        """Yield the results of all batches that are under way."""
        while self._under_way:
            yield self._fetch()

    def _fetch(self) -> tuple[Any, Vectors]:
        tag, batch, launched = self._under_way.popleft()
        try:
            return tag, np.array(self.device.fetch(launched), np.float32)
        except FULL:
            self.ahead = 0
            return tag, self.backoff.run(self._now, batch)

    def _now(self, batch: Sequence[Any]) -> Vectors:
        return self.device.fetch(self.device.launch(self.device.copy(batch)))
