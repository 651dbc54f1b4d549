"""Deep images in eight bits a channel. Pillow's conversion cuts at 255, which makes them white, or black."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eyechart.errors import DataError

if TYPE_CHECKING:
    from PIL import Image

_BITS_TAG = 258
_DEEP = {"I": "whole numbers of 32 bits", "F": "numbers with fractions, not all of them from 0 to 1"}


def known_range(image: Image.Image, source: str) -> Image.Image:
    """Return a decoded image in a mode that tells the range of its values, which its format knows.

    Raises:
        DataError: If it has 12 bits (a TIFF may) in a mode of 16.
    """
    if image.format == "PPM" and image.mode == "I":
        return image.convert("I;16")  # Pillow scales these to 16 bits, whatever their largest value is
    if image.mode.startswith("I;16") and image.getexif().get(_BITS_TAG, 16) != 16:
        raise DataError(
            f"{source}: the image has {image.getexif()[_BITS_TAG]} bits a channel.", advice="Save it with 8 or 16."
        )
    return image


def eight_bits(image: Image.Image) -> Image.Image:
    """Return deep grey values in eight bits; an image of another kind as it is.

    Of 16 bits the upper eight are kept, as Pillow does with 16-bit colours. Fractions are taken to go from 0 to 1.

    Raises:
        DataError: If nobody can tell which value is white.
    """
    import numpy as np
    from PIL import Image

    if image.mode not in _DEEP and not image.mode.startswith("I;16"):
        return image
    values = np.asarray(image)
    if values.dtype.kind == "f" and np.all((values >= 0) & (values <= 1)):
        return Image.fromarray(np.rint(values * 255).astype(np.uint8))
    if values.dtype.itemsize == 2:
        return Image.fromarray((values >> 8).astype(np.uint8))
    raise DataError(
        f"The image has {_DEEP[image.mode]}: nobody can tell which of them is white.",
        advice="Save it with 8 or 16 bits a channel.",
    )
