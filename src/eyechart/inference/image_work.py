"""From the bytes of one image to its place in a batch, and who does it: the thread that asks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

from eyechart.errors import DataError
from eyechart.inference.rows import BatchRows, Memory
from eyechart.io.media import ImageRef
from eyechart.io.stopwatch import Stopwatch
from eyechart.types import Sample

Wanted = tuple[bytes, Sample, int | None]
"""The key of an image, where it is, and its row."""
Outcome = NDArray[Any] | Exception


@dataclass(frozen=True)
class ImageWork:
    """What becomes of an image before the model sees it."""

    decode: Callable[[ImageRef], Any]
    prepare: Callable[[Any], NDArray[Any]]

    def do(self, key: bytes, sample: Sample, watch: Stopwatch) -> NDArray[Any]:
        """Read, decode and transform an image.

        Raises:
            DataError: If it cannot be decoded, or is no longer the one with this key.
        """
        with watch.phase("decode"):
            ref = sample.need_image().load()
            if ref.digest() != key:
                # Its vector would be stored under the name of what was there before, for ever.
                raise DataError("the image changed after the dataset was read", advice="Run again.")
            image = self.decode(ref)
        with watch.phase("transform"):
            return self.prepare(image)


class Preparer(Protocol):
    """Who prepares images. Several threads ask at once; each waits for its own."""

    threads: int
    """How many may ask."""
    piece: int
    """How many images each of them best asks for at a time."""

    @property
    def memory(self) -> Memory:
        """Return what makes memory for rows that it can write to."""

    def prepare(self, piece: Sequence[Wanted], rows: BatchRows) -> list[Outcome]:
        """Return images, in their rows if they fit there, or what was wrong with them."""

    def close(self) -> None:
        """Stop, when nobody asks any more."""


class ThreadPreparer:
    """Prepares each image in the thread that asks."""

    piece = 1

    def __init__(self, work: ImageWork, threads: int, memory: Memory, watch: Stopwatch) -> None:
        self.work, self.threads, self.memory, self.watch = work, max(1, threads), memory, watch

    def prepare(self, piece: Sequence[Wanted], rows: BatchRows) -> list[Outcome]:
        """Do the work here."""
        return [self._one(*wanted, rows) for wanted in piece]

    def _one(self, key: bytes, sample: Sample, row: int | None, rows: BatchRows) -> Outcome:
        try:
            return rows.fill(row, self.work.do(key, sample, self.watch))
        except Exception as error:  # noqa: BLE001 - it is raised where the image is needed
            return error

    def close(self) -> None:
        """Nothing was started."""
