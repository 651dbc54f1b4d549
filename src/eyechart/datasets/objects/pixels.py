"""Images as people have them in memory: of PIL, arrays, paths, or the bytes of a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from eyechart.datasets.images import from_pixels
from eyechart.errors import DataError
from eyechart.io.media import ImageRef

ADVICE = "An image is one of PIL, an array of bytes (height, width, 3), a path, or the bytes of an image file."

NUMBERS = {"F": "float32", "I": "int32"}
"""Modes of PIL whose pixels are numbers of any size; PIL itself would cut them off at 0 and 255."""


def image_of(thing: Any, source: str) -> ImageRef:
    """Make a reference of an image, whatever it is; pixels become PNG, which loses nothing.

    Raises:
        DataError: If it is no image, or an array of numbers whose range is not known.
    """
    if isinstance(thing, Image.Image):
        return from_pixels(_plain(thing, source), source)
    if isinstance(thing, str | Path):
        return ImageRef.from_path(Path(thing))
    if isinstance(thing, bytes | bytearray):
        return ImageRef(source, data=bytes(thing))
    if isinstance(thing, Mapping) and thing.keys() & {"bytes", "path"}:  # as Hugging Face keeps them
        return image_of(thing["bytes"] if thing.get("bytes") else thing.get("path"), source)
    if hasattr(thing, "detach") or isinstance(thing, np.ndarray):
        return from_pixels(_plain(Image.fromarray(_pixels(thing, source)), source), source)
    raise DataError(f"{source}: a {type(thing).__name__} is no image.", advice=ADVICE)


def _plain(image: Image.Image, source: str) -> Image.Image:
    """Return an image in a mode that PNG has."""
    if image.mode in NUMBERS:
        raise _unknown_range(f"{NUMBERS[image.mode]} (mode {image.mode})", source)
    if not all(image.size):
        raise DataError(f"{source}: an image of {image.width} x {image.height} pixels.")
    return image if image.mode in ("1", "L", "LA", "I;16", "P", "RGB", "RGBA") else image.convert("RGB")


def _unknown_range(kind: str, source: str) -> DataError:
    return DataError(
        f"{source}: an image of {kind}, whose range of values is not known.",
        advice="Give bytes (uint8) or images of PIL: the model prepares them itself. Leave out ToTensor and Normalize.",
    )


def _pixels(thing: Any, source: str) -> NDArray[np.uint8]:
    """Return the bytes of an array or tensor; a tensor has its channels first."""
    array = thing.numpy(force=True) if hasattr(thing, "detach") else thing
    if array.dtype != np.uint8:
        raise _unknown_range(str(array.dtype), source)
    if array.ndim == 3 and array.shape[0] in (1, 3) and (hasattr(thing, "detach") or array.shape[2] not in (1, 3, 4)):
        array = array.transpose(1, 2, 0)
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (3, 4)):
        raise DataError(f"{source}: an array of shape {array.shape} is no image.", advice=ADVICE)
    return np.ascontiguousarray(array)
