"""Batches of prepared images, decoded and transformed by threads while the model computes the previous batch.

This is the path of CPU models and ONNX; `eyechart.inference.image_loader` feeds GPUs. Both yield `ImageBatch`.
"""

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from eyechart.errors import DataError, UsageError
from eyechart.io.digests import DIGEST_SIZE
from eyechart.io.images import ImageRef, Trait, decode_rgb, traits_seen
from eyechart.io.stopwatch import Stopwatch
from eyechart.messages import UserMessage
from eyechart.models.lazy_model import LazyModel
from eyechart.types import Notice, Sample

KeyedSample = tuple[bytes, Sample]
"""A key and the sample that refers to the image: the image's content digest, followed by the digest of the text if
both are one input."""
ROW_BATCHES = 4
"""Batches of reusable memory: two in preparation, one being collected, and rows in flight."""
TRAITS = {
    Trait.ORIENTATION: "{n} images carry an EXIF orientation, which encoders and CoCa ignore, as open_clip and "
    "CLIP_benchmark do, and other generative models apply.",
    Trait.ALPHA: "{n} images have transparent pixels, which encoders and CoCa see without the alpha channel, as "
    "open_clip and CLIP_benchmark do, and other generative models on white.",
    Trait.DEPTH: "{n} images have more than 8 bits per channel and were reduced to 8.",
}
AHEAD_BYTES = 256 * 1024 * 1024
"""Encoded bytes that may wait for decoding; equal to the size limit of a single image."""


@dataclass
class ImageBatch:
    """Prepared images with the keys of their vectors, and the failed images of the same batch.

    The next batch may reuse the memory of the pixels.
    """

    keys: list[bytes] = field(default_factory=list)
    pixels: Any = None
    """One array or tensor, or a list if the images have several shapes; empty or None without images."""
    failures: list[tuple[str, DataError]] = field(default_factory=list)
    """Sample ids with the errors of their images."""
    traits: dict[bytes, Trait] = field(default_factory=dict)
    """Traits of the images that have any."""


def trait_notices(traits: Mapping[Any, int]) -> list[Notice]:
    """Count the images with each trait."""
    counts = {trait: sum(1 for flags in traits.values() if trait & flags) for trait in Trait}
    return [
        Notice(f"image_{str(trait.name).lower()}", n, UserMessage(TRAITS[trait], n=n))
        for trait, n in counts.items()
        if n
    ]


@dataclass(frozen=True)
class ImageWork:
    """Decodes and transforms one image."""

    decode: Callable[[ImageRef], Any]
    prepare: Callable[[Any], NDArray[Any]]

    @classmethod
    def of(cls, model: LazyModel) -> Self:
        """Use the encoder's transform, and its decoder if the model options select one."""
        encoder = model.load()
        decode: Callable[[ImageRef], Any] | None = decode_rgb
        if "decoder" in model.spec.options:
            decode = getattr(encoder, "decode", None)
        if decode is None:
            raise UsageError(
                "The decoder of {label} cannot be selected.",
                advice="Omit {--model_option} decoder.",
                label=model.spec.label,
            )
        return cls(decode, getattr(encoder, "image_transform", encoder.prepare_image))

    def run(self, key: bytes, image: ImageRef, watch: Stopwatch) -> tuple[NDArray[Any], Trait]:
        """Read, decode and transform an image; also return its traits."""
        with watch.phase("decode"):
            ref = image.load()
            if ref.digest() != key[:DIGEST_SIZE]:
                # Its vector would be stored under the key of the old content permanently.
                raise DataError("the image changed after the dataset was read", advice="Run again.")
            decoded = self.decode(ref)
        with watch.phase("transform"):
            prepared = self.prepare(decoded)
        zeros = image.zeros and not prepared.dtype.hasobject
        return np.zeros_like(prepared) if zeros else prepared, traits_seen(decoded)


class BatchRows:
    """Reusable rows for prepared images of one shape: allocating fresh memory costs a tenth of the preparation.

    One thread takes and returns rows, others fill them. An image that does not fit, or has no row, keeps its own
    memory.
    """

    def __init__(self, rows: int) -> None:
        self._free = deque(range(rows))
        self._rows = rows
        self._array: NDArray[Any] | None = None
        self._allocating = threading.Lock()

    def take(self) -> int | None:
        """Take a free row. Rows are reused in order, so that a batch is usually one slice of the memory."""
        return self._free.popleft() if self._free else None

    def give_back(self, numbers: Iterable[int | None]) -> None:
        """Make rows available again."""
        self._free.extend(number for number in numbers if number is not None)

    def fill(self, number: int | None, image: NDArray[Any]) -> NDArray[Any]:
        """Copy the image into its row and return the row; return the image itself if it does not fit."""
        if number is None or not isinstance(image, np.ndarray) or image.dtype.hasobject:
            return image
        with self._allocating:
            if self._array is None:
                try:
                    self._array = np.empty((self._rows, *image.shape), image.dtype)
                except MemoryError:
                    # Images of many megapixels that the transform does not resize: single ones may still fit.
                    self._array = np.empty(0, np.uint8)
        if (self._array.shape[1:], self._array.dtype) != (image.shape, image.dtype):
            return image
        row: NDArray[Any] = self._array[number]
        row[...] = image
        return row

    def batch(self, numbers: Sequence[int | None], images: Sequence[NDArray[Any]]) -> Any:
        """Return the images as one array, without a copy if they are adjacent rows; a list if their shapes differ."""
        start, array = numbers[0], self._array
        if start is not None and array is not None and all(image.base is array for image in images):
            adjacent = range(start, start + len(numbers))
            if list(numbers) == list(adjacent):
                return array[adjacent.start : adjacent.stop]
        return stack(images)


def stack(images: Sequence[NDArray[Any]]) -> Any:
    """Stack prepared images into one array; images of different shapes stay a list."""
    if len({image.shape for image in images}) == 1:
        return np.stack(images)
    return list(images)


def bytes_held(sample: Sample) -> int:
    """Return the memory taken by the encoded bytes of a sample's image."""
    return len(sample.image.data) if sample.image is not None and sample.image.data is not None else 0


@dataclass
class ThreadBatches:
    """Prepares images in threads, at most two batches ahead."""

    work: ImageWork
    batch_size: int
    threads: int
    watch: Stopwatch

    def batches(self, samples: Iterable[KeyedSample]) -> Generator[ImageBatch]:
        """Yield batches in the order of the samples; a failed image does not reduce the batch size."""
        rows = BatchRows(ROW_BATCHES * self.batch_size)
        batch = ImageBatch()
        numbers: list[int | None] = []
        images: list[NDArray[Any]] = []
        with closing(self._prepared(samples, rows)) as prepared:
            for key, name, row, future in prepared:
                with self.watch.phase("wait"):
                    error = future.exception()
                if isinstance(error, DataError):
                    rows.give_back([row])
                    batch.failures.append((name, error))
                    continue
                image, traits = future.result()
                images.append(image)
                batch.keys.append(key)
                if traits:
                    batch.traits[key] = traits
                numbers.append(row)
                if len(images) == self.batch_size:
                    batch.pixels = rows.batch(numbers, images)
                    images.clear()  # frees those that have no row
                    yield batch
                    rows.give_back(numbers)
                    batch, numbers = ImageBatch(), []
        if images:
            batch.pixels = rows.batch(numbers, images)
        if batch.keys or batch.failures:
            yield batch

    def _prepared(
        self, samples: Iterable[KeyedSample], rows: BatchRows
    ) -> Generator[tuple[bytes, str, int | None, Future[tuple[NDArray[Any], Trait]]]]:
        """Yield samples in order, each with its row and the future of its image."""

        def prepare(key: bytes, image: ImageRef, row: int | None) -> tuple[NDArray[Any], Trait]:
            prepared, traits = self.work.run(key, image, self.watch)
            return rows.fill(row, prepared), traits

        with ThreadPoolExecutor(max(1, self.threads), thread_name_prefix="decode") as pool:
            waiting: deque[tuple[bytes, str, int | None, Future[tuple[NDArray[Any], Trait]], int]] = deque()
            held = 0
            try:
                for key, sample in self.watch.each("read", samples):
                    row, size = rows.take(), bytes_held(sample)
                    future = pool.submit(prepare, key, sample.need_image(), row)
                    # Not the sample, which would keep the encoded bytes in memory after decoding.
                    waiting.append((key, sample.id, row, future, size))
                    held += size
                    while len(waiting) > 2 * self.batch_size or (held > AHEAD_BYTES and waiting):
                        held -= waiting[0][-1]
                        yield waiting.popleft()[:-1]
                while waiting:
                    yield waiting.popleft()[:-1]
            finally:
                for *_, future, _ in waiting:
                    future.cancel()
