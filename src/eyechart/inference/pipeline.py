"""Compute and store the vectors of images and texts: batches that fit into memory, stored at regular intervals."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eyechart.errors import DataError, ModelError, OutOfMemoryError
from eyechart.inference.image_batches import ImageBatch, ImageWork, KeyedSample, ThreadBatches
from eyechart.inference.image_loader import LoaderBatches, loader_workers
from eyechart.io.digests import DIGEST_SIZE, digest_bytes
from eyechart.io.progress import Bar
from eyechart.io.signals import held_signals, terminable
from eyechart.io.stopwatch import Stopwatch
from eyechart.manifest import Failure
from eyechart.messages import UserMessage
from eyechart.metrics.vectors import AnyVectors, MultiVectors, concatenate
from eyechart.models.lazy_model import LazyModel
from eyechart.models.towers.torch_tools import empty_cache
from eyechart.store.vector_store import VectorTable
from eyechart.types import EncodeOptions, Notice, OnError

FLUSH_ROWS = 4096
FLUSH_BYTES = 64 << 20
FLUSH_SECONDS = 20.0
"""A crash loses at most the vectors computed since the last flush; SIGINT and SIGTERM flush."""
LOADER_AFTER = 16
"""Batches prepared by threads before loader workers start by default: starting them takes seconds."""


@dataclass
class _Buffer:
    """AnyVectors waiting to be stored."""

    table: VectorTable
    watch: Stopwatch
    keys: list[bytes] = field(default_factory=list)
    vectors: list[AnyVectors] = field(default_factory=list)
    held: int = 0
    """Bytes of the vectors."""
    since: float = field(default_factory=time.monotonic)
    before: _Buffer | None = None
    """Flushed first."""

    def add(self, keys: list[bytes], vectors: AnyVectors) -> None:
        if len(vectors) != len(keys):
            raise ModelError("The model returned {n} vectors for {inputs} inputs.", n=len(vectors), inputs=len(keys))
        if self.vectors and self.vectors[0].shape[1:] != vectors.shape[1:]:
            raise ModelError(
                "The model returned vectors of shapes {shape} and {shape2}.",
                advice="All vectors must have the same length.",
                shape=self.vectors[0].shape[1:],
                shape2=vectors.shape[1:],
            )
        with held_signals():  # keys and vectors stay in step
            self.keys += keys
            self.vectors.append(vectors)
            self.held += vectors.rows.nbytes if isinstance(vectors, MultiVectors) else vectors.nbytes
            full = len(self.keys) >= FLUSH_ROWS or self.held >= FLUSH_BYTES
            if full or time.monotonic() - self.since > FLUSH_SECONDS:
                self.flush()

    def flush(self) -> None:
        with held_signals():
            if self.before is not None:
                self.before.flush()
            if self.keys:
                digests = np.frombuffer(b"".join(self.keys), np.uint8).reshape(len(self.keys), -1)
                with self.watch.phase("store"):
                    self.table.add(digests, concatenate(self.vectors))
            self.keys, self.vectors, self.held, self.since = [], [], 0, time.monotonic()


@dataclass
class BatchBackoff:
    """Runs an encoder on batches that fit into memory, halving the size until it fits and keeping it from then on."""

    requested: int = 0
    size: int | None = None

    def run(self, encode: Callable[[Any], AnyVectors], items: Sequence[Any]) -> AnyVectors:
        """Encode all items, in one batch if it fits."""
        parts: list[AnyVectors] = []
        done = 0
        while done < len(items):
            part = items[done : done + (self.size or len(items))]
            failed = ""
            try:
                found = encode(part)
                # A copy: some runtimes return the same memory on every call.
                parts.append(found if isinstance(found, MultiVectors) else np.array(found, np.float32))
            except (OutOfMemoryError, MemoryError) as error:
                failed = str(error) or type(error).__name__
            if not failed:
                done += len(part)
                continue
            # Outside `except`: there, the traceback keeps the activations of the failed pass in memory.
            if len(part) == 1:
                raise ModelError(
                    "A single input does not fit into memory ({reason}).",
                    advice="Use a smaller model, {--precision=fp16} on a GPU, or another {--device}.",
                    reason=failed,
                )
            self.requested = max(self.requested, len(items))
            self.size = len(part) // 2
            gc.collect()
            empty_cache()
        joined: AnyVectors = concatenate(parts)
        return joined

    def notices(self) -> list[Notice]:
        """Report a reduced batch size."""
        if self.size is None:
            return []
        text = "Batches of {requested} did not fit into memory; the batch size was reduced to {size}."
        return [Notice("smaller_batches", 1, UserMessage(text, requested=self.requested, size=self.size))]


@dataclass
class Pipeline:
    """Decodes, transforms, encodes and stores with one model."""

    model: LazyModel
    options: EncodeOptions
    on_error: OnError
    """Raise at an image that cannot be decoded, or record it."""
    watch: Stopwatch
    backoff: BatchBackoff = field(default_factory=BatchBackoff)
    encoded: int = 0
    """Images that went through the pipeline."""
    no_loader: str = ""
    """Why threads prepared the images although loader workers were requested."""

    def embed_images(
        self,
        samples: Iterable[KeyedSample],
        table: VectorTable,
        bar: Bar,
        traits: VectorTable | None = None,
        *,
        instruction: str = "",
        texts: Mapping[bytes, str] | None = None,
        cuts: VectorTable | None = None,
    ) -> list[Failure]:
        """Store the vectors of images, each key once, in the table of the loaded model's card; return those that fail.

        ``traits`` is the table of the traits of images that have any: a later run that reads the vectors from the store
        reports them without reading the images. With ``texts``, by the keys of the samples, an image and its text are
        one input; ``cuts`` is the table of whether each was truncated.
        """
        failures: list[Failure] = []
        noted = _Buffer(traits, self.watch) if traits is not None else None
        cut = _Buffer(cuts, self.watch, before=noted) if cuts is not None else None
        buffer = _Buffer(table, self.watch, before=cut or noted)
        encoder = self.model.load()
        check = None if instruction or texts else getattr(encoder, "precision_check", None)
        options = {"instruction": instruction} if instruction else {}
        encode = partial(encoder.encode_images, **options)

        def encode_joint(pairs: Sequence[tuple[Any, str]]) -> AnyVectors:
            pixels, words = zip(*pairs, strict=True)
            vectors: AnyVectors = encoder.encode_joint(list(pixels), list(words), **options)
            return vectors

        with terminable(), ExitStack() as last:
            batches = last.enter_context(closing(self._batches(encoder, samples)))
            last.callback(buffer.flush)  # also after an interrupt, before the workers are stopped
            for batch in batches:
                for name, error in batch.failures:
                    if self.on_error == "fail":
                        raise DataError(
                            "{name}: {reason}",
                            advice="Repair or remove the image, or skip it with {--on_error=skip}.",
                            name=name,
                            reason=error.message,
                        ) from error
                    failures.append(Failure(name, error.message))
                if batch.keys:
                    keys, own = batch.keys, [texts[key] for key in batch.keys] if texts is not None else []
                    with self.watch.phase("encode images"):
                        if texts is None:
                            vectors = self.backoff.run(encode, batch.pixels)
                        else:
                            vectors = self.backoff.run(encode_joint, list(zip(batch.pixels, own, strict=True)))
                        if check is not None and check.due:
                            check.see(batch.pixels, vectors)
                    if noted is not None and batch.traits:
                        traits_of = {key[:DIGEST_SIZE]: flags for key, flags in batch.traits.items()}
                        noted.add(list(traits_of), np.array([list(traits_of.values())], np.float32).T)
                    if cut is not None:
                        keys = [digest_bytes(key) for key in keys]
                        cut.add(keys, np.array(encoder.truncated(own), np.float32)[:, None])
                    buffer.add(keys, vectors)
                done = len(batch.keys) + len(batch.failures)
                self.encoded += done
                bar.advance(done)
        return failures

    def _batches(self, encoder: Any, samples: Iterable[KeyedSample]) -> Generator[ImageBatch]:
        """Prepare images in threads, or in loader workers on a GPU."""
        work = ImageWork.of(self.model)
        size = min(self.options.batch_size, getattr(encoder, "max_batch", self.options.batch_size))
        threads = ThreadBatches(work, size, self.options.workers, self.watch)
        workers, self.no_loader = loader_workers(encoder, work, self.options)
        left = iter(samples)
        if workers and self.options.decode_processes is None:
            yield from threads.batches(islice(left, LOADER_AFTER * self.options.batch_size))
        first = next(left, None) if workers else None
        if first is not None:
            pin = any(str(device).startswith("cuda") for device in getattr(encoder, "devices", ()))
            yield from LoaderBatches(threads, workers, pin_memory=pin).batches(chain([first], left))
        else:
            yield from threads.batches(left)

    def notices(self) -> list[Notice]:
        """Report a reduced batch size, and requested loader workers that were not started."""
        text = "Images were decoded by threads instead of {n} processes: {reason}."
        why = UserMessage(text, n=self.options.decode_processes, reason=self.no_loader)
        return [*([Notice("decode_threads", 1, why)] if self.no_loader else []), *self.backoff.notices()]

    def embed_texts(
        self,
        texts: list[str],
        keys: NDArray[np.uint8],
        tables: tuple[VectorTable, VectorTable],
        language: str,
        bar: Bar,
        *,
        instruction: str = "",
    ) -> None:
        """Store the vectors of texts, shortest first to keep padding small.

        The first table stores the vectors, the second whether each text was truncated: a later run that reads the
        vectors from the store reports it without loading the model.
        """
        encoder = self.model.load()
        size = self.options.batch_size
        order = sorted(range(len(texts)), key=lambda i: (len(texts[i]), texts[i]))
        vectors, cuts = _Buffer(tables[0], self.watch), _Buffer(tables[1], self.watch)
        options = {"instruction": instruction} if instruction else {}
        encode = partial(encoder.encode_texts, language=language, **options)
        with terminable(), ExitStack() as last:
            last.callback(vectors.flush)
            last.callback(cuts.flush)  # callbacks run in reverse order
            for start in range(0, len(order), size):
                chosen = [texts[i] for i in order[start : start + size]]
                chosen_keys = [keys[i].tobytes() for i in order[start : start + size]]
                with self.watch.phase("encode texts"):
                    encoded = self.backoff.run(encode, chosen)
                    cut = np.array(encoder.truncated(chosen), np.float32)[:, None]
                cuts.add(chosen_keys, cut)  # before the vectors: a text is complete once both are stored
                vectors.add(chosen_keys, encoded)
                bar.advance(len(chosen))
