"""Images encoded for servers: JPEG or PNG bytes in a data URL."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from eyechart.io.images import Trait, decode_image, image_traits, to_upright

if TYPE_CHECKING:
    from PIL import Image


Format = Literal["jpeg", "png"]
_PLAIN_MODES = frozenset({"L", "RGB"})


@dataclass(frozen=True, slots=True)
class EncodedImage:
    """An encoded image with its media type."""

    mime: str
    data: bytes = field(repr=False)
    traits: Trait = Trait.NONE
    """Traits of the original image."""

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
    traits = image_traits(plain)
    if (
        isinstance(image, bytes)
        and len(image) <= max_bytes
        and plain.format in ("JPEG", "PNG")
        and plain.mode in _PLAIN_MODES
        and not traits
        and (max_edge is None or max(plain.size) <= max_edge)
    ):
        return EncodedImage(f"image/{str(plain.format).lower()}", image)
    plain = plain_image(plain, max_edge)
    written = io.BytesIO()
    options = {"quality": quality} if format == "jpeg" else {}
    plain.save(written, format, **options)
    return EncodedImage(f"image/{format}", written.getvalue(), traits)


def plain_image(image: Image.Image, max_edge: int | None) -> Image.Image:
    """Normalise an image: upright, on white where transparent, 8-bit RGB or grey, at most ``max_edge`` long.

    Servers and local generators get the same image.
    """
    from PIL.Image import Resampling

    plain = to_upright(image)
    if max_edge is not None and max(plain.size) > max_edge:
        plain.thumbnail((max_edge, max_edge), Resampling.LANCZOS)
    return plain
