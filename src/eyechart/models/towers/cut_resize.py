"""Resize and centre crop of a Pillow image, without most of what the crop throws away; every bit is the same.

Pillow resizes in two passes, along the rows and along the columns, each rounded to bytes. Done one by one, what the
crop will not keep can be left out between them: columns before the second pass, rows before the first. Rows come first
in every Pillow, but of tall images and of those that are squashed (since Pillow 13): these go the plain way.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from PIL import Image

REACH = 3
"""How many pixels away (of the smaller image) a filter looks at most; Lanczos does."""
TALLEST = 1.5
"""Height by width up to which the rows come first; Pillow 13's own limit is 2."""
PROBES = ((97, 61), (61, 90))
"""Width and height of the images on which both ways are compared."""


def cut_steps(steps: list[Any]) -> list[Any]:
    """Put `CutResize` in the place of torchvision's resize and crop at the beginning, where it gives the same bits."""
    from torchvision.transforms import CenterCrop, InterpolationMode, Resize

    smooth = (InterpolationMode.BICUBIC, InterpolationMode.BILINEAR, InterpolationMode.LANCZOS)
    if [type(step) for step in steps[:2]] != [Resize, CenterCrop]:
        return steps
    shorter_side = isinstance(steps[0].size, int) and steps[0].max_size is None
    if not shorter_side or steps[0].interpolation not in smooth:
        return steps
    cut = CutResize(steps[0], steps[1])
    # Which pass is first is Pillow's own affair: compared, not taken for granted.
    same = all(cut(image).tobytes() == cut.plain(image).tobytes() for image in map(_noise, PROBES))
    return [cut, *steps[2:]] if same else steps


class CutResize:
    """A resize and the crop after it, as one step on a Pillow image."""

    def __init__(self, resize: Any, crop: Any) -> None:
        self.resize, self.crop = resize, crop
        self.filter = Image.Resampling[resize.interpolation.name]

    def plain(self, image: Any) -> Any:
        """Take one step after the other."""
        return self.crop(self.resize(image))

    def __call__(self, image: Any) -> Any:
        """Return the middle of the resized image."""
        (width, height), (kept_height, kept_width) = self._size(image), self.crop.size
        outside = kept_width > width or kept_height > height
        if outside or image.mode != "RGB" or image.height > TALLEST * image.width:
            return self.plain(image)
        left, top = round((width - kept_width) / 2), round((height - kept_height) / 2)
        scale = image.height / height
        margin = REACH * max(scale, 1) + 2
        first = max(0, int(top * scale - margin))
        last = min(image.height, int((top + kept_height) * scale + margin))
        rows = _part(image, (0, first, image.width, last)).resize((width, last - first), self.filter)
        rows = _part(rows, (left, 0, left + kept_width, last - first))
        if last - first < image.height:
            # The second pass needs them at their places; what it makes of the empty rows is cut off.
            whole = Image.new(image.mode, (kept_width, image.height))
            whole.paste(rows, (0, first))
            rows = whole
        return _part(rows.resize((kept_width, height), self.filter), (0, top, kept_width, top + kept_height))

    def _size(self, image: Image.Image) -> tuple[int, int]:
        """Return width and height after the resize, as torchvision computes them."""
        edge, (width, height) = self.resize.size, image.size
        longer = int(edge * max(width, height) / min(width, height))
        return (edge, longer) if width <= height else (longer, edge)


def _part(image: Image.Image, box: tuple[int, int, int, int]) -> Image.Image:
    """Cut a part out; all of an image is not copied."""
    return image if box == (0, 0, *image.size) else image.crop(box)


def _noise(size: tuple[int, int]) -> Image.Image:
    pixels = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), np.uint8)
    return Image.fromarray(pixels)
