"""From images to stored vectors: decode in threads, encode in batches, store as it goes."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from eyechart.errors import DataError, ModelError, UsageError
from eyechart.inference.as_read import bytes_held
from eyechart.inference.backoff import BatchBackoff
from eyechart.inference.batch_trial import BatchTrial, TrialFeed
from eyechart.inference.device_feed import DeviceFeed, FeedDevice, device_of
from eyechart.inference.rows import BatchRows
from eyechart.io.media import ImageRef, to_rgb
from eyechart.io.progress import Bar
from eyechart.io.stopwatch import Stopwatch
from eyechart.manifest import Failure
from eyechart.models.lazy import LazyModel
from eyechart.store.vectors import Digests, Vectors
from eyechart.types import OnError, Sample

Prepared = tuple[bytes, str, int | None, Future[NDArray[Any]], int]
"""The key of an image, its sample's id, its row, its pixels as soon as they are there, and the bytes it came with."""
Encoded = tuple[tuple[list[bytes], list[int | None]], NDArray[np.float32]]
"""The keys and rows of a batch, and its vectors."""
BATCHES = 4
"""Batches of memory: at most two are being prepared and one is being put together, and an image more is on its way."""
AHEAD_BYTES = 256 * 1024 * 1024
"""Bytes of images that came with them and wait to be decoded; the largest image has as many."""
FLUSH_ROWS = 4096
FLUSH_SECONDS = 20.0
"""A crash loses at most what was computed since the last flush."""


class Sink(Protocol):
    """Takes vectors: a table, or several at once."""

    def add(self, digests: Digests, vectors: Vectors) -> None:
        """Store vectors under their keys."""


@dataclass
class _Buffer:
    """Vectors on their way to the store."""

    table: Sink
    watch: Stopwatch
    keys: list[bytes] = field(default_factory=list)
    vectors: list[NDArray[np.float32]] = field(default_factory=list)
    rows: int = 0
    since: float = field(default_factory=time.monotonic)

    def add(self, keys: list[bytes], vectors: NDArray[np.float32]) -> None:
        if len(vectors) != len(keys):
            raise ModelError(f"The model gave {len(vectors)} vectors for {len(keys)} inputs.")
        if self.vectors and self.vectors[0].shape[1:] != vectors.shape[1:]:
            raise ModelError(
                f"The model gave vectors of shape {self.vectors[0].shape[1:]} and of {vectors.shape[1:]}.",
                advice="All of them must have the same size.",
            )
        self.keys += keys
        self.vectors.append(vectors)
        self.rows += len(keys)
        if self.rows >= FLUSH_ROWS or time.monotonic() - self.since > FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        if self.keys:
            digests = np.frombuffer(b"".join(self.keys), np.uint8).reshape(len(self.keys), -1)
            with self.watch.phase("store"):
                self.table.add(digests, np.concatenate(self.vectors))
        self.keys, self.vectors, self.rows, self.since = [], [], 0, time.monotonic()


@dataclass
class Pipeline:
    """Decodes, transforms, encodes and stores with one model."""

    model: LazyModel
    batch_size: int
    """Images or texts per forward pass."""
    workers: int
    """Threads that decode and transform."""
    on_error: OnError
    """Stop at an image that cannot be decoded, or list it."""
    watch: Stopwatch
    backoff: BatchBackoff = field(default_factory=BatchBackoff)
    grow: bool = False
    """Whether a device may take larger batches of images than that, where it is faster so."""

    def embed_images(self, samples: Iterable[tuple[bytes, Sample]], table: Sink, bar: Bar) -> list[Failure]:
        """Store the vectors of images; return those that could not be decoded.

        Args:
            samples: Keys and samples, each key once.
            table: Where the vectors go: that of the loaded model's card.
            bar: Progress.
        """
        device = device_of(self.model.load())
        if not self.grow or device.tuning is None:
            return self._embed_images(samples, table, bar, device, DeviceFeed(device, self.backoff))
        trial = BatchTrial(device.tuning, self.batch_size, self.backoff)
        failures: list[Failure] = []
        for step in trial.steps(iter(samples)):
            line = replace(self, batch_size=step.size)
            feed = TrialFeed(trial, device, self.backoff) if step.timed else DeviceFeed(device, self.backoff)
            failures += line._embed_images(step.samples, table, bar, device, feed)
        return failures

    def _embed_images(
        self,
        samples: Iterable[tuple[bytes, Sample]],
        table: Sink,
        bar: Bar,
        device: FeedDevice,
        feed: DeviceFeed,
    ) -> list[Failure]:
        """Embed images in batches of one size."""
        failures: list[Failure] = []
        buffer = _Buffer(table, self.watch)
        rows = BatchRows((BATCHES + device.ahead) * self.batch_size, device.memory)
        batch: list[tuple[bytes, int | None, NDArray[Any]]] = []

        def encode() -> None:
            if batch:
                keys, numbers, images = map(list, zip(*batch, strict=True))
                keep(feed.put((keys, numbers), rows.batch(numbers, images)))
                batch.clear()

        def keep(finished: Iterator[Encoded]) -> None:
            for (keys, numbers), vectors in self.watch.each("encode images", finished):
                buffer.add(keys, vectors)
                rows.give_back(numbers)

        try:
            for key, name, row, future, _ in self._prepared(samples, rows, device):
                try:
                    with self.watch.phase("wait"):
                        batch.append((key, row, future.result()))
                except DataError as error:
                    rows.give_back([row])
                    if self.on_error == "fail":
                        raise DataError(
                            f"{name}: {error.message}",
                            advice="Repair or remove the image, or go on without it: --on-error skip.",
                        ) from error
                    failures.append(Failure(name, error.message))
                bar.advance()
                if len(batch) == self.batch_size:
                    encode()
            encode()
        finally:
            # Also after an interrupt: what was encoded is kept.
            try:
                keep(feed.drain())
            finally:
                buffer.flush()
        return failures

    def _prepared(
        self, samples: Iterable[tuple[bytes, Sample]], rows: BatchRows, device: FeedDevice
    ) -> Iterator[Prepared]:
        """Yield samples in order with their transformed image, working at most two batches in advance."""

        def prepare(row: int | None, image: Any) -> NDArray[Any]:
            return rows.fill(row, device.prepare(image))

        with ThreadPoolExecutor(max(1, self.workers), thread_name_prefix="decode") as pool:
            waiting: deque[Prepared] = deque()
            held = 0
            try:
                for key, sample in self.watch.each("read", samples):
                    row, size = rows.take(), bytes_held(sample)
                    future = pool.submit(self._prepare, key, sample, partial(prepare, row))
                    waiting.append((key, sample.id, row, future, size))
                    held += size
                    while len(waiting) > 2 * self.batch_size or (held > AHEAD_BYTES and waiting):
                        held -= waiting[0][-1]
                        yield waiting.popleft()
                while waiting:
                    yield waiting.popleft()
            finally:
                for *_, future, _ in waiting:
                    future.cancel()

    def _prepare(self, key: bytes, sample: Sample, prepare: Callable[[Any], NDArray[Any]]) -> NDArray[Any]:
        with self.watch.phase("decode"):
            ref = sample.need_image().load()
            if ref.digest() != key:
                # Its vector would be stored under the name of what was there before, for ever.
                raise DataError("the image changed after the dataset was read", advice="Run again.")
            image = own_decode(self.model, ref) if "decoder" in self.model.spec.options else to_rgb(ref.decode())
        with self.watch.phase("transform"):
            return prepare(image)

    def embed_texts(
        self,
        texts: list[str],
        keys: NDArray[np.uint8],
        tables: tuple[Sink, Sink],
        language: str,
        bar: Bar,
    ) -> None:
        """Store the vectors of texts, shortest first, so that a batch needs little padding.

        The first table takes the vectors, the second whether the text was cut: a later run that finds the vector in the
        store must be able to report that without loading the model.
        """
        encoder = self.model.load()
        order = sorted(range(len(texts)), key=lambda i: (len(texts[i]), texts[i]))
        vectors, cuts = (_Buffer(table, self.watch) for table in tables)
        try:
            for start in range(0, len(order), self.batch_size):
                chosen = [texts[i] for i in order[start : start + self.batch_size]]
                chosen_keys = [keys[i].tobytes() for i in order[start : start + self.batch_size]]
                with self.watch.phase("encode texts"):
                    encoded = self.backoff.run(partial(encoder.encode_texts, language=language), chosen)
                    cut = np.array(encoder.truncated(chosen), np.float32)[:, None]
                cuts.add(chosen_keys, cut)  # before the vectors: a text counts as done when both are there
                vectors.add(chosen_keys, encoded)
                bar.advance(len(chosen))
        finally:
            cuts.flush()
            vectors.flush()


def own_decode(model: LazyModel, ref: ImageRef) -> Any:
    """Decode with the model's own decoder, for a family that offers a choice."""
    decode = getattr(model.load(), "decode", None)
    if decode is None:
        raise UsageError(f"{model.spec.label} has no decoder to choose.", advice="Leave out --model_option decoder.")
    return decode(ref)
