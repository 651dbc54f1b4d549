"""Images as people have them in memory: of PIL, arrays, paths, or the bytes of a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from eyechart.datasets.images import from_pixels
from eyechart.errors import DataError, first_line
from eyechart.io.media import ImageRef, to_rgb
from eyechart.io.pixels.depth import known_range

ADVICE = "An image is one of PIL, an array of bytes (height, width, 3), a path, or the bytes of an image file."

MODES = ("1", "L", "LA", "I;16", "P", "RGB", "RGBA")
"""Those of PNG."""


def image_of(thing: Any, source: str) -> ImageRef:
    """Make a reference of an image, whatever it is; pixels become PNG, which loses nothing.

    Raises:
        DataError: If it is no image, or an array of numbers whose range is not known.
    """
    if isinstance(thing, Image.Image):
        return _kept(thing, source)
    if isinstance(thing, str | Path):
        return ImageRef.from_path(Path(thing))
    if isinstance(thing, bytes | bytearray):
        return ImageRef(source, data=bytes(thing))
    if isinstance(thing, Mapping) and thing.keys() & {"bytes", "path"}:  # as Hugging Face keeps them
        return image_of(thing["bytes"] if thing.get("bytes") else thing.get("path"), source)
    if hasattr(thing, "detach") or isinstance(thing, np.ndarray):
        return _kept(Image.fromarray(_pixels(thing, source)), source)
    raise DataError(f"{source}: a {type(thing).__name__} is no image.", advice=ADVICE)


def _kept(image: Image.Image, source: str) -> ImageRef:
    """Keep the pixels of an image, in a mode that PNG has; those of other modes are read as from a file."""
    try:
        if not all(image.size):
            raise DataError(f"an image of {image.width} x {image.height} pixels.")
        return from_pixels(image if image.mode in MODES else to_rgb(known_range(image, source)), source)
    except DataError as error:
        raise DataError(f"{source}: {error.message}", advice=error.advice) from error
    except (OSError, ValueError) as error:  # of a file that is read only now, and is closed or cut
        raise DataError(f"{source}: cannot read the image ({first_line(error)}).") from error


def _pixels(thing: Any, source: str) -> NDArray[np.uint8]:
    """Return the bytes of an array or tensor; a tensor has its channels first."""
    array = thing.numpy(force=True) if hasattr(thing, "detach") else thing
    if array.dtype != np.uint8:
        raise DataError(
            f"{source}: an image of {array.dtype}, whose range of values is not known.",
            advice="Give bytes (uint8) or images of PIL: the model prepares them itself. Leave out ToTensor and "
            "Normalize.",
        )
    if array.ndim == 3 and array.shape[0] in (1, 3) and (hasattr(thing, "detach") or array.shape[2] not in (1, 3, 4)):
        array = array.transpose(1, 2, 0)
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (3, 4)):
        raise DataError(f"{source}: an array of shape {array.shape} is no image.", advice=ADVICE)
    return np.ascontiguousarray(array)
