"""Images in tables: base64 in cells, files on disk."""

from __future__ import annotations

import base64
import binascii
import io
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from eyechart.errors import DataError
from eyechart.io.media import MAX_BYTES, decode_image

if TYPE_CHECKING:
    from PIL import Image

SHARED = 64
"""An image cell of at most this many characters names another row, whose image it shares."""


def decode_cell(text: str, source: str) -> bytes:
    """Return the encoded image of a base64 cell; a data URL's head is dropped."""
    body = text.rpartition(";base64,")[2] if text.startswith("data:") else text
    if len(body) > MAX_BYTES * 4 // 3 + 4:
        raise DataError(f"{source}: the image has more than {MAX_BYTES} bytes.")
    try:
        return base64.b64decode(body, validate=False)
    except (binascii.Error, ValueError) as error:
        raise DataError(f"{source}: the image is not base64 ({error}).") from error


def write_image(text: str, path: Path, source: str) -> None:
    """Write a base64 cell's image to a file unless that very file is there.

    The bytes are kept as they are, and decoded once to see that they are an image of a decent size.
    """
    data = decode_cell(text, source)
    if path.is_file() and path.stat().st_size == len(data) and path.read_bytes() == data:
        return
    decode_image(data, source)
    # In one step, but not flushed to disk: an image that a crash spoils is found different, and written again.
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".tmp-{secrets.token_hex(6)}{path.suffix}")
    aside.write_bytes(data)
    aside.replace(path)


def encode_image_to_base64(img: Image.Image, target_size: int = -1, fmt: str = "JPEG") -> str:
    """Encode an image, scaled down to at most ``target_size`` on its longer side if that is positive."""
    from PIL import Image

    image = img if img.mode in ("RGB", "L") else img.convert("RGB")
    if target_size > 0 and max(image.size) > target_size:
        image = image.copy()
        image.thumbnail((target_size, target_size), Image.Resampling.LANCZOS)
    written = io.BytesIO()
    image.save(written, fmt)
    return base64.b64encode(written.getvalue()).decode("ascii")


def encode_image_file_to_base64(image_path: str | Path, target_size: int = -1, fmt: str = "JPEG") -> str:
    """Encode an image file; without a target size its bytes stay as they are."""
    data = Path(image_path).read_bytes()
    if target_size <= 0:
        decode_image(data, str(image_path))
        return base64.b64encode(data).decode("ascii")
    return encode_image_to_base64(decode_image(data, str(image_path)), target_size, fmt)


def decode_base64_to_image(base64_string: str, target_size: int = -1) -> Image.Image:
    """Decode an image; palettes and transparency become RGB."""
    image = decode_image(decode_cell(base64_string, "base64 text"), "base64 text")
    if image.mode in ("RGBA", "P", "LA"):
        image = image.convert("RGB")
    if target_size > 0:
        image.thumbnail((target_size, target_size))
    return image


def decode_base64_to_image_file(base64_string: str, image_path: str | Path, target_size: int = -1) -> None:
    """Decode an image into a file; its suffix names the format."""
    path = Path(image_path)
    path.parent.mkdir(parents=True, exist_ok=True)
    decode_base64_to_image(base64_string, target_size).save(path)
