"""Images as base64 texts, under the names that VLMEvalKit gives these functions."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import TYPE_CHECKING

from eyechart.datasets.questions.images import decode_cell
from eyechart.io.media import decode_image

if TYPE_CHECKING:
    from PIL import Image


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
