"""Images decoded and resized by torch instead of Pillow: less than half the time, at most one level of 255 apart.

An option (``--model_option decoder=fast``), not the default: a score that shall equal the literature's needs the pixels
that the literature used. What cannot be decoded this way (PNG, CMYK, ...) is decoded by Pillow and resized alike.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from eyechart.errors import DataError, UsageError
from eyechart.io.media import ImageRef, open_image, to_rgb

DECODERS = ("exact", "fast")
NOTE = "Images were decoded and resized by torch: pixels differ from Pillow's by at most one level of 255."


def is_fast(options: Any) -> bool:
    """Read the option; only known decoders are taken."""
    decoder = options.get("decoder", "exact")
    if decoder not in DECODERS:
        raise UsageError(f"Unknown decoder: {decoder!r}.", advice=f"Use one of: {', '.join(DECODERS)}.")
    return bool(decoder == "fast")


class FastImages:
    """The steps of a torchvision transform on whole-number tensors."""

    def __init__(self, transform: Any) -> None:
        from torchvision.transforms import CenterCrop, Normalize, Resize

        kinds = {"MaybeConvertMode", "MaybeToTensor", "ToTensor"}
        steps = list(getattr(transform, "transforms", ()))
        known = (Resize, CenterCrop, Normalize)
        if not steps or any(type(step) not in known and type(step).__name__ not in kinds for step in steps):
            raise UsageError("The fast decoder does not know this model's transform.", advice="Leave out decoder=fast.")
        self.geometry = [step for step in steps if isinstance(step, Resize | CenterCrop)]
        self.normalize = [step for step in steps if isinstance(step, Normalize)]

    def decode(self, ref: ImageRef) -> Any:
        """Decode to a (3, height, width) tensor of bytes."""
        import torch
        from torchvision.io import ImageReadMode, decode_jpeg
        from torchvision.transforms.functional import pil_to_tensor

        data = ref.read()
        if ref.box is None and _is_plain_jpeg(data, ref.source):
            try:
                return decode_jpeg(torch.frombuffer(bytearray(data), dtype=torch.uint8), mode=ImageReadMode.RGB)
            except RuntimeError as error:
                reason = str(error).rpartition(": ")[2].strip()
                raise DataError(f"{ref.source}: cannot decode the image ({reason}).") from error
        return pil_to_tensor(to_rgb(ref.decode()))

    def prepare(self, image: Any) -> NDArray[np.float32]:
        """Resize, cut and normalise what `decode` gave (or a Pillow image)."""
        from torchvision.transforms.functional import pil_to_tensor

        pixels = pil_to_tensor(to_rgb(image)) if isinstance(image, Image.Image) else image
        for step in self.geometry:
            pixels = step(pixels)
        pixels = pixels.float().div_(255)
        for step in self.normalize:
            pixels = step(pixels)
        array: NDArray[np.float32] = pixels.numpy()
        return array


def _is_plain_jpeg(data: bytes, source: str) -> bool:
    """Tell from the header whether libjpeg decodes this as Pillow would, and refuse a giant image."""
    if not data.startswith(b"\xff\xd8\xff"):
        return False
    try:
        header = open_image(data, source)
    except (OSError, ValueError, SyntaxError):
        # Pillow's own decode will say what is wrong with it.
        return False
    return header.format == "JPEG" and header.mode in ("RGB", "L")
