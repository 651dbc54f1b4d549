"""JPEG decoding and resizing by torch instead of Pillow: less than half the time, at most one level of 255 apart.

Opt-in (``--model_option decoder=fast``): scores comparable with the literature need the same pixels. Images for which
the difference would be larger (upscaled ones, and tall ones, for which Pillow swaps the passes) and files other than
plain JPEGs are decoded and resized by Pillow, bit for bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from eyechart.errors import DataError, UsageError, unknown_name
from eyechart.io.images import ImageRef, decode_rgb, open_image
from eyechart.models.speedups.transforms import PixelTable

DECODERS = ("exact", "fast")
NOTE = "JPEGs were decoded and resized by torch: pixels differ from Pillow's by at most one level of 255."


def is_fast(options: Any) -> bool:
    """Whether the options select the fast decoder; unknown decoders are refused."""
    decoder = options.get("decoder", "exact")
    if decoder not in DECODERS:
        raise unknown_name("decoder", str(decoder), DECODERS)
    return bool(decoder == "fast")


class FastImages:
    """A torchvision transform on uint8 tensors."""

    def __init__(self, transform: Any) -> None:
        from torchvision.transforms import CenterCrop, Normalize, Resize, v2

        steps = list(getattr(transform, "transforms", ()))
        known = {"MaybeConvertMode", "MaybeToTensor", "ToTensor"}
        other = any(
            type(step) not in (Resize, CenterCrop, Normalize) and type(step).__name__ not in known for step in steps
        )
        self.pixels = PixelTable(transform)
        if other or not self.pixels.known:
            raise UsageError(
                "The fast decoder does not support the transform of this model.", advice="Omit decoder=fast."
            )
        # torchvision v1 resizes bytes in float32 and rounds.
        self.geometry = [
            v2.Resize(step.size, interpolation=step.interpolation, max_size=step.max_size, antialias=step.antialias)
            if isinstance(step, Resize)
            else step
            for step in steps
            if isinstance(step, Resize | CenterCrop)
        ]
        self.side = max((int(np.max(step.size)) for step in steps if isinstance(step, Resize)), default=0)

    @property
    def levels(self) -> NDArray[np.float32] | None:
        """The normalisation table, see `PixelTable.levels`."""
        return self.pixels.levels

    def decode(self, ref: ImageRef) -> Any:
        """Decode to a (3, height, width) uint8 tensor, or to a Pillow image where torch would differ too much."""
        import torch
        from torchvision.io import ImageReadMode, decode_jpeg

        data = ref.read()
        if ref.box is not None or not self._fits(data, ref.source):
            return decode_rgb(ref)
        try:
            return decode_jpeg(torch.frombuffer(bytearray(data), dtype=torch.uint8), mode=ImageReadMode.RGB)
        except RuntimeError as error:
            reason = str(error).rpartition(": ")[2].strip()
            raise DataError("{file}: cannot decode the image ({reason}).", file=ref.source, reason=reason) from error

    def prepare(self, image: Any) -> NDArray[np.float32]:
        """Resize, crop and normalise the result of `decode`."""
        if isinstance(image, Image.Image):
            return self.pixels.prepare(image)
        return self.pixels.look_up(self.prepare_bytes(image))

    def prepare_bytes(self, image: Any) -> NDArray[np.uint8]:
        """Resize and crop; the device normalises."""
        if isinstance(image, Image.Image):
            return self.pixels.prepare_bytes(image)
        for step in self.geometry:
            image = step(image)
        array: NDArray[np.uint8] = image.numpy()
        return array

    def _fits(self, data: bytes, source: str) -> bool:
        """Whether torch decodes and resizes this JPEG like Pillow, judging by its header; refuses oversized images."""
        if not data.startswith(b"\xff\xd8\xff"):
            return False
        try:
            header = open_image(data, source)
        except (OSError, ValueError, SyntaxError):
            # Pillow's decoder reports the error.
            return False
        plain = header.format == "JPEG" and header.mode in ("RGB", "L")
        return plain and min(header.size) >= self.side and header.height <= 2 * header.width
