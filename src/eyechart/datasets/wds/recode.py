"""The bytes of an image as they are, or encoded anew."""

from __future__ import annotations

import io
from typing import Any

from eyechart.errors import unknown_name
from eyechart.io.media import ImageRef, to_rgb

ORIGINAL = "original"
FORMATS: dict[str, dict[str, Any]] = {
    "webp": {"format": "WEBP", "lossless": True, "exact": True},
    "png": {"format": "PNG"},
    "jpg": {"format": "JPEG"},
}
"""How Pillow is told to write each extension. ``exact`` keeps the colours under transparent pixels."""
MAGIC = {"jpg": (b"\xff\xd8\xff", 0), "png": (b"\x89PNG\r\n\x1a\n", 0), "webp": (b"WEBP", 8)}
"""How the formats that a webdataset may hold begin."""
DEEP = frozenset({"I;16", "I;16B"})
MODES = {
    "webp": frozenset({"1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX"}),
    "png": frozenset({"1", "L", "LA", "P", "RGB", "RGBA"}) | DEEP,
    "jpg": frozenset({"L", "RGB", "CMYK"}),
}
"""What each format holds; an image in another mode becomes RGB."""


def recode(ref: ImageRef, image_format: str | None) -> tuple[str, bytes]:
    """Return the extension and the bytes of an image in a format, or unchanged.

    A part of an image, or a file in a format that webdataset readers do not know (PPM, TIFF, ...), becomes lossless
    webp, or PNG if it has more than eight bits per channel.
    """
    check_format(image_format)
    data = ref.read()
    found = extension_of(data)
    keep = image_format == ORIGINAL or (image_format is None and not ref.made)
    if keep and found and ref.box is None:
        return found, data
    image = ref.decode()
    extension = image_format if image_format not in (None, ORIGINAL) else "webp"
    if extension == "webp" and image.mode in DEEP:
        extension = "png"
    if image.mode not in MODES[str(extension)]:
        image = to_rgb(image)
    stream = io.BytesIO()
    image.save(stream, **FORMATS[str(extension)])
    return str(extension), stream.getvalue()


def extension_of(data: bytes) -> str | None:
    """Recognise JPEG, PNG and WebP by how they begin."""
    return next((name for name, (mark, at) in MAGIC.items() if data[at : at + len(mark)] == mark), None)


def check_format(image_format: str | None) -> None:
    """Refuse a format that cannot be written."""
    if image_format is not None and image_format not in (ORIGINAL, *FORMATS):
        raise unknown_name("image format", image_format, (ORIGINAL, *FORMATS))
