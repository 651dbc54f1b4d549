"""From images to stored vectors: decode beside the model, encode in batches, store as it goes."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from eyechart.errors import DataError, ModelError, UsageError
from eyechart.inference.as_read import bytes_held
from eyechart.inference.backoff import BatchBackoff
from eyechart.inference.batch_trial import BatchTrial, TrialFeed
from eyechart.inference.device_feed import DeviceFeed, FeedDevice, device_of
from eyechart.inference.image_work import ImageWork, Outcome, Preparer
from eyechart.inference.process_preparer import preparer_for
from eyechart.inference.rows import BatchRows
from eyechart.io.media import ImageRef, decode_rgb
from eyechart.io.progress import Bar
from eyechart.io.stopwatch import Stopwatch
from eyechart.manifest import Failure
from eyechart.models.lazy import LazyModel
from eyechart.store.vectors import Digests, Vectors
from eyechart.types import OnError, Sample

Prepared = tuple[bytes, str, int | None, Future[list[Outcome]], int, int]
"""The key of an image, its sample's id, its row, its pixels as soon as they are there (among some others, and at which
place), and the bytes it came with."""
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
    decode_processes: int | None
    """Processes that do it instead; 0 for none, None to start them where the device is faster than threads."""
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
            # What is timed is soon over: no process is started for it.
            processes = 0 if step.timed else self.decode_processes
            line = replace(self, batch_size=step.size, decode_processes=processes)
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
        encoder = self.model.load()
        preparer = preparer_for(
            ImageWork(self._decoder(encoder), device.prepare),
            device,
            self.watch,
            threads=self.workers,
            processes=self.decode_processes,
            owner=encoder,
        )
        rows = BatchRows((BATCHES + device.ahead) * self.batch_size, preparer.memory)
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

        def take(prepared: Iterable[Prepared]) -> None:
            for key, name, row, future, place, _ in prepared:
                with self.watch.phase("wait"):
                    outcome = future.result()[place]
                if isinstance(outcome, DataError):
                    rows.give_back([row])
                    failures.append(self._failure(name, outcome))
                elif isinstance(outcome, Exception):
                    raise outcome
                else:
                    batch.append((key, row, outcome))
                bar.advance()
                if len(batch) == self.batch_size:
                    encode()
            encode()

        with ExitStack() as last:  # also after an interrupt, from the bottom: what was encoded is kept
            last.callback(preparer.close)  # the device may copy from its memory until all is fetched
            last.callback(buffer.flush)
            last.callback(lambda: keep(feed.drain()))
            take(last.enter_context(closing(self._prepared(samples, rows, preparer))))
        return failures

    def _prepared(
        self, samples: Iterable[tuple[bytes, Sample]], rows: BatchRows, preparer: Preparer
    ) -> Generator[Prepared]:
        """Yield samples in order with their transformed image, working at most two batches in advance."""
        size = min(preparer.piece, self.batch_size)
        read = self.watch.each("read", samples)
        with ThreadPoolExecutor(preparer.threads, thread_name_prefix="decode") as pool:
            waiting: deque[Prepared] = deque()
            held = 0
            try:
                while piece := [(key, sample, rows.take()) for key, sample in islice(read, size)]:
                    future = pool.submit(preparer.prepare, piece, rows)
                    for place, (key, sample, row) in enumerate(piece):
                        # Not the sample: its bytes are held until they are decoded, and no longer.
                        waiting.append((key, sample.id, row, future, place, bytes_held(sample)))
                        held += waiting[-1][-1]
                    while len(waiting) > 2 * self.batch_size or (held > AHEAD_BYTES and waiting):
                        held -= waiting[0][-1]
                        yield waiting.popleft()
                while waiting:
                    yield waiting.popleft()
            finally:
                for *_, future, _, _ in waiting:
                    future.cancel()

    def _failure(self, name: str, error: DataError) -> Failure:
        """Keep what is wrong with an image, or end the run with it."""
        if self.on_error == "fail":
            raise DataError(
                f"{name}: {error.message}",
                advice="Repair or remove the image, or go on without it: --on-error skip.",
            ) from error
        return Failure(name, error.message)

    def _decoder(self, encoder: Any) -> Callable[[ImageRef], Any]:
        """Return the model's own decoder, of a family that offers a choice, if one was chosen."""
        if "decoder" not in self.model.spec.options:
            return decode_rgb
        decode: Callable[[ImageRef], Any] | None = getattr(encoder, "decode", None)
        if decode is None:
            label = self.model.spec.label
            raise UsageError(f"{label} has no decoder to choose.", advice="Leave out --model_option decoder.")
        return decode

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
