"""Torchvision transforms in less time, by default with identical bits.

`PixelTable` replaces the last steps (to tensor, normalise) by a lookup. A channel has 256 levels, so these steps have
768 different results, computed once by the steps themselves. A table also keeps torch's threads out of the decoding
threads.

`FusedResizeCrop` resizes and crops in one step, skipping most of what the crop discards. Pillow resizes in two passes,
horizontal and vertical, each rounded to bytes. Done separately, discarded columns are dropped before the second pass
and discarded rows before the first. Every Pillow starts with the horizontal pass, except for tall images and changed
aspect ratios (since Pillow 13): these are left to torchvision.

`FastImages` decodes JPEGs and resizes with torch instead of Pillow: less than half the time, at most one level of 255
apart. It is opt-in (``--model_option decoder=fast``): scores comparable with the literature need the same pixels.
Images for which the difference would be larger (upscaled ones, and tall ones, for which Pillow swaps the passes) and
files other than plain JPEGs are decoded and resized by Pillow, bit for bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from eyechart.errors import DataError, UsageError
from eyechart.io.images import ImageRef, decode_rgb, image_traits, open_image
from eyechart.models import speedups

if TYPE_CHECKING:
    import torch

DECODERS = ("exact", "fast")
FAST_NOTE = "JPEGs were decoded and resized by torch: pixels differ from Pillow's by at most one level of 255."
LEVELS = 256
TO_TENSOR = ("ToTensor", "MaybeToTensor")
"""The tensor conversion of torchvision and of open_clip; earlier steps work on Pillow images."""
TO_MODE = "MaybeConvertMode"
"""open_clip's conversion to an image ``mode``."""
REACH = 3
"""Largest filter radius in pixels of the smaller image (Lanczos)."""
TALLEST = 1.5
"""Largest ratio of height to width for which the horizontal pass comes first; Pillow 13's limit is 2."""
PROBE_SIZES = ((97, 61), (61, 90))
"""Width and height of the images on which both implementations are compared."""


class PixelTable:
    """A transform in two parts: steps on images, and a table of the remaining steps by channel and level."""

    def __init__(self, transform: Any) -> None:
        steps = list(getattr(transform, "transforms", ()))
        names = [type(step).__name__ for step in steps]
        start = next((i for i, name in enumerate(names) if name in TO_TENSOR), len(steps))
        self.transform = transform
        rest = steps[start:]
        self.known = speedups.enabled() and bool(rest) and set(names[start + 1 :]) <= {"Normalize"}
        """Whether a table is used; if not, the transform itself is applied."""
        self.before = fuse_resize_crop(steps[:start]) if self.known else []
        self.table = np.empty((0, LEVELS), np.float32)
        if self.known:  # run the steps on an image that has every level in every channel
            levels: Any = Image.fromarray(np.repeat(np.arange(LEVELS, dtype=np.uint8)[None, :, None], 3, axis=2))
            for step in rest:
                levels = step(levels)
            self.table = levels.numpy()[:, 0]

    def decode(self, ref: ImageRef) -> Any:
        """Decode an image for `prepare`."""
        return decode_rgb(ref)

    @property
    def levels(self) -> NDArray[np.float32] | None:
        """The table, if it applies to every RGB image, so that `prepare_bytes` can be used; else None."""
        return self.table if self._shaped(Image.new("RGB", (8, 8))) is not None else None

    def prepare(self, image: Image.Image) -> NDArray[np.float32]:
        """Transform an image to a (3, height, width) array, by the table where it applies."""
        shaped = self._shaped(image)
        if shaped is None:
            array: NDArray[np.float32] = self.transform(image).numpy()
            return array
        return self.look_up(np.asarray(shaped).transpose(2, 0, 1))

    def prepare_bytes(self, image: Image.Image) -> NDArray[np.uint8]:
        """Transform an image except for the table lookup, which the device does."""
        return np.asarray(self._shaped(image)).transpose(2, 0, 1)

    def _shaped(self, image: Image.Image) -> Image.Image | None:
        """Apply the steps before the table; None if the table does not apply to the result."""
        shaped: Any = image
        for step in self.before:
            # Converting an image that has the mode already would only copy it.
            if type(step).__name__ != TO_MODE or step.mode != getattr(shaped, "mode", None):
                shaped = step(shaped)
        return shaped if self.known and isinstance(shaped, Image.Image) and shaped.mode == "RGB" else None

    def look_up(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Apply the last steps to a (3, height, width) array of bytes."""
        found = np.empty(pixels.shape, np.float32)
        for channel, levels, place in zip(pixels, self.table, found, strict=True):
            levels.take(channel, out=place, mode="wrap")  # indices are always valid; mode="raise" would buffer
        return found


def look_up_there(pixels: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """`PixelTable.look_up` on the device of a batch of bytes and the table, with identical bits."""
    import torch

    channels = torch.arange(len(table), dtype=torch.int32, device=pixels.device)[:, None, None]
    places = pixels.int() + LEVELS * channels
    return table.reshape(-1).index_select(0, places.reshape(-1)).reshape(pixels.shape)


def fuse_resize_crop(steps: list[Any]) -> list[Any]:
    """Replace an initial torchvision resize and crop by `FusedResizeCrop`, if it gives identical bits."""
    from torchvision.transforms import CenterCrop, InterpolationMode, Resize

    smooth = (InterpolationMode.BICUBIC, InterpolationMode.BILINEAR, InterpolationMode.LANCZOS)
    if [type(step) for step in steps[:2]] != [Resize, CenterCrop]:
        return steps
    shorter_side = isinstance(steps[0].size, int) and steps[0].max_size is None
    if not shorter_side or steps[0].interpolation not in smooth:
        return steps
    fused = FusedResizeCrop(steps[0], steps[1])
    # The order of the passes depends on the version of Pillow, so the results are compared.
    random = np.random.default_rng(0)
    noise = [Image.fromarray(random.integers(0, 256, (high, wide, 3), np.uint8)) for wide, high in PROBE_SIZES]
    same = all(fused(image).tobytes() == fused.plain(image).tobytes() for image in noise)
    return [fused, *steps[2:]] if same else steps


class FusedResizeCrop:
    """A resize and a centre crop as one step on a Pillow image."""

    def __init__(self, resize: Any, crop: Any) -> None:
        self.resize, self.crop = resize, crop
        self.filter = Image.Resampling[resize.interpolation.name]

    def plain(self, image: Any) -> Any:
        """Resize and crop with torchvision."""
        return self.crop(self.resize(image))

    def __call__(self, image: Any) -> Any:
        """Return the centre of the resized image."""
        # Width and height after the resize, as torchvision computes them.
        edge, (kept_height, kept_width) = self.resize.size, self.crop.size
        longer = int(edge * max(image.size) / min(image.size))
        width, height = (edge, longer) if image.width <= image.height else (longer, edge)
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
            # The second pass needs the rows at their places; results from the empty rows are cropped.
            whole = Image.new(image.mode, (kept_width, image.height))
            whole.paste(rows, (0, first))
            rows = whole
        return _part(rows.resize((kept_width, height), self.filter), (0, top, kept_width, top + kept_height))


def _part(image: Image.Image, box: tuple[int, int, int, int]) -> Image.Image:
    """Crop an image; the whole image is returned without a copy."""
    return image if box == (0, 0, *image.size) else image.crop(box)


class FastImages(PixelTable):
    """A torchvision transform on uint8 tensors; images that `decode` leaves to Pillow use the table."""

    def __init__(self, transform: Any) -> None:
        from torchvision.transforms import CenterCrop, Normalize, Resize, v2

        super().__init__(transform)
        steps = list(getattr(transform, "transforms", ()))
        known = {"MaybeConvertMode", "MaybeToTensor", "ToTensor"}
        other = any(
            type(step) not in (Resize, CenterCrop, Normalize) and type(step).__name__ not in known for step in steps
        )
        if other or not self.known:
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
        return super().prepare(image) if isinstance(image, Image.Image) else self.look_up(self.prepare_bytes(image))

    def prepare_bytes(self, image: Any) -> NDArray[np.uint8]:
        """Resize and crop; the device normalises."""
        if isinstance(image, Image.Image):
            return super().prepare_bytes(image)
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
        plain = header.format == "JPEG" and header.mode in ("RGB", "L") and not image_traits(header)
        return plain and min(header.size) >= self.side and header.height <= 2 * header.width
