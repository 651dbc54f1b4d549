"""Images encoded for servers: JPEG or PNG bytes in a data URL."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from eyechart.io.images import decode_image

if TYPE_CHECKING:
    from PIL import Image


Format = Literal["jpeg", "png"]
_PLAIN_MODES = frozenset({"L", "RGB"})
_UPRIGHT = 1
_ORIENTATION_TAG = 0x0112


@dataclass(frozen=True, slots=True)
class EncodedImage:
    """An encoded image with its media type."""

    mime: str
    data: bytes = field(repr=False)

    @property
    def base64(self) -> str:
        """The bytes in base64."""
        return base64.b64encode(self.data).decode("ascii")

    @property
    def data_url(self) -> str:
        """The image as a `data:` URL."""
        return f"data:{self.mime};base64,{self.base64}"


def encode_image(
    image: Image.Image | bytes,
    *,
    max_edge: int | None = None,
    max_bytes: int = 20_000_000,
    format: Format = "jpeg",  # noqa: A002 - Pillow's word for it
    quality: int = 95,
    source: str = "image",
) -> EncodedImage:
    """Encode an image for an API.

    Bytes of a plain upright JPEG or PNG within `max_edge` and `max_bytes` are passed on unchanged. Everything else is
    turned upright, composited on white where transparent, converted to 8-bit RGB or grey, scaled down to `max_edge` and
    saved as `format`. Only the first frame of an animation is used.

    Raises:
        DataError: If the bytes are not an image, or one with too many pixels; `source` names it.
    """
    plain = decode_image(image, source) if isinstance(image, bytes) else image
    if (
        isinstance(image, bytes)
        and len(image) <= max_bytes
        and plain.format in ("JPEG", "PNG")
        and plain.mode in _PLAIN_MODES
        and "transparency" not in plain.info
        and plain.getexif().get(_ORIENTATION_TAG, _UPRIGHT) == _UPRIGHT
        and (max_edge is None or max(plain.size) <= max_edge)
    ):
        return EncodedImage(f"image/{str(plain.format).lower()}", image)
    plain = plain_image(plain, max_edge)
    written = io.BytesIO()
    options = {"quality": quality} if format == "jpeg" else {}
    plain.save(written, format, **options)
    return EncodedImage(f"image/{format}", written.getvalue())


def plain_image(image: Image.Image, max_edge: int | None) -> Image.Image:
    """Normalise an image: upright, on white where transparent, 8-bit RGB or grey, at most ``max_edge`` long.

    Servers and local generators get the same image.
    """
    from PIL import Image, ImageOps

    plain = ImageOps.exif_transpose(image)
    if plain.mode in _PLAIN_MODES and "transparency" not in plain.info:
        plain = plain.copy()
    elif plain.mode.startswith(("I", "F")):
        plain = Image.fromarray(_eight_bits(np.asarray(plain)))
    elif plain.mode in ("LA", "La", "PA", "RGBA", "RGBa") or "transparency" in plain.info:
        layer = plain.convert("RGBA")
        paper = Image.new("RGBA", layer.size, "white")
        plain = Image.alpha_composite(paper, layer).convert("RGB")
    else:
        plain = plain.convert("L" if plain.mode == "1" else "RGB")
    if max_edge is not None and max(plain.size) > max_edge:
        plain.thumbnail((max_edge, max_edge), Image.Resampling.LANCZOS)
    return plain


def _eight_bits(values: NDArray[Any]) -> NDArray[np.uint8]:
    """Scale deep grey values to 0..255: 16-bit ones by their full range, others by their observed range."""
    if values.dtype == np.uint16:
        return np.asarray(values // 257, dtype=np.uint8)
    finite = np.nan_to_num(values.astype(np.float64))
    low, high = finite.min(initial=np.inf), finite.max(initial=-np.inf)
    span = high - low if high > low else 1.0
    return np.asarray(np.rint((finite - low) / span * 255), dtype=np.uint8)
