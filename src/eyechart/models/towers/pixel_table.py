"""The last steps of a torchvision transform, to a tensor and normalised, looked up instead of computed.

A channel of an image has 256 levels, so these steps have 768 different results: they are computed once, by the steps
themselves, and every bit is the same. Reading them from a table keeps torch's threads out of the decoding threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from eyechart.io.media import ImageRef, decode_rgb
from eyechart.models.towers.cut_resize import cut_steps

if TYPE_CHECKING:
    import torch

LEVELS = 256
TO_TENSOR = ("ToTensor", "MaybeToTensor")
"""Torchvision's step and open_clip's: what comes before them works on Pillow's images."""
TO_MODE = "MaybeConvertMode"
"""Open_clip's step that converts an image to its ``mode``."""


class PixelTable:
    """A transform in two parts: steps on images, and a table of what the rest makes of each level of each channel."""

    def __init__(self, transform: Any) -> None:
        steps = list(getattr(transform, "transforms", ()))
        names = [type(step).__name__ for step in steps]
        start = next((i for i, name in enumerate(names) if name in TO_TENSOR), len(steps))
        self.transform = transform
        rest = steps[start:]
        self.known = bool(rest) and set(names[start + 1 :]) <= {"Normalize"}
        """Whether the rest has a table."""
        self.before = cut_steps(steps[:start]) if self.known else []
        self.table = _table(rest) if self.known else np.empty((0, LEVELS), np.float32)

    @staticmethod
    def decode(ref: ImageRef) -> Image.Image:
        """Decode an image for `prepare`."""
        return decode_rgb(ref)

    @property
    def levels(self) -> NDArray[np.float32] | None:
        """Return the table, if every RGB image is bytes before it; None where `prepare_bytes` would not do."""
        return self.table if self._shaped(Image.new("RGB", (8, 8))) is not None else None

    def prepare(self, image: Image.Image) -> NDArray[np.float32]:
        """Transform an image to a (3, height, width) array; what the table does not fit goes the transform's way."""
        shaped = self._shaped(image)
        if shaped is None:
            array: NDArray[np.float32] = self.transform(image).numpy()
            return array
        return self.look_up(np.asarray(shaped).transpose(2, 0, 1))

    def prepare_bytes(self, image: Image.Image) -> NDArray[np.uint8]:
        """Transform an image but for the table, for a device to look up."""
        return np.asarray(self._shaped(image)).transpose(2, 0, 1)

    def _shaped(self, image: Image.Image) -> Image.Image | None:
        """Take the steps before the table; None where it does not fit their result."""
        shaped: Any = image
        for step in self.before:
            # An image that has the mode already would only be copied.
            if type(step).__name__ != TO_MODE or step.mode != getattr(shaped, "mode", None):
                shaped = step(shaped)
        return shaped if self.known and isinstance(shaped, Image.Image) and shaped.mode == "RGB" else None

    def look_up(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return what the last steps make of a (3, height, width) array of bytes."""
        found = np.empty(pixels.shape, np.float32)
        for channel, levels, place in zip(pixels, self.table, found, strict=True):
            levels.take(channel, out=place, mode="wrap")  # no byte is outside; asking for errors would buffer
        return found


def look_up_there(pixels: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """Do as `PixelTable.look_up` does, with every bit, on the device where a batch of bytes and the table are."""
    import torch

    channels = torch.arange(len(table), dtype=torch.int32, device=pixels.device)[:, None, None]
    places = pixels.int() + LEVELS * channels
    return table.reshape(-1).index_select(0, places.reshape(-1)).reshape(pixels.shape)


def _table(steps: list[Any]) -> NDArray[np.float32]:
    """Run the steps on an image that has every level in every channel."""
    levels = np.arange(LEVELS, dtype=np.uint8)
    pixels: Any = Image.fromarray(np.repeat(levels[None, :, None], 3, axis=2))
    for step in steps:
        pixels = step(pixels)
    table: NDArray[np.float32] = pixels.numpy()[:, 0]
    return table
