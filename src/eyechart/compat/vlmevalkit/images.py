"""Images as base64 texts, under the names that VLMEvalKit gives these functions."""

from __future__ import annotations

import base64
import hashlib
import io
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from eyechart.datasets.questions.images import decode_cell
from eyechart.errors import DataError
from eyechart.io.files import cache_root, write_cached
from eyechart.io.media import decode_image
from eyechart.io.terminal import write_message
from eyechart.metrics.cells import is_missing, text_list

if TYPE_CHECKING:
    from PIL import Image

__all__ = [
    "build_option_str",
    "concat_images_vlmeval",
    "decode_base64_to_image",
    "decode_base64_to_image_file",
    "encode_image_file_to_base64",
    "encode_image_to_base64",
    "isimg",
    "mmqa_display",
    "read_ok",
    "rescale_img",
    "resize_image_by_factor",
]

SMALLER = 0.8
"""The step by which an image is scaled down until its file is small enough."""


def encode_image_to_base64(
    img: Image.Image, target_size: int = -1, fmt: str = "JPEG", max_file_size: float = 1e9
) -> str:
    """Encode an image, scaled down to at most ``target_size`` on its longer side and ``max_file_size`` characters."""
    from PIL import Image

    image = img if img.mode in ("RGB", "L") else img.convert("RGB")
    if target_size > 0 and max(image.size) > target_size:
        image = image.copy()
        image.thumbnail((target_size, target_size), Image.Resampling.LANCZOS)
    while True:
        written = io.BytesIO()
        image.save(written, fmt)
        text = base64.b64encode(written.getvalue()).decode("ascii")
        if len(text) <= max_file_size or max(image.size) == 1:
            return text
        image = resize_image_by_factor(image, SMALLER)


def encode_image_file_to_base64(
    image_path: str | Path, target_size: int = -1, fmt: str = "JPEG", max_file_size: float = 1e9
) -> str:
    """Encode an image file; without a target size its bytes stay as they are if they are few enough."""
    data = Path(image_path).read_bytes()
    image = decode_image(data, str(image_path))
    if target_size <= 0 and len(data) * 4 / 3 <= max_file_size:
        return base64.b64encode(data).decode("ascii")
    return encode_image_to_base64(image, target_size, fmt, max_file_size)


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


def read_ok(img_path: str | Path) -> bool:
    """Tell whether a file is there and starts as an image does."""
    from PIL import Image

    try:
        with Image.open(img_path) as image:
            return min(image.size) > 0
    except (OSError, ValueError, Image.DecompressionBombError):
        return False


def isimg(s: str) -> bool:
    """Tell whether a text is the path of a file, or a URL."""
    return s.startswith("http") or Path(s).exists()


def mmqa_display(question: Mapping[str, Any], target_size: int = -1) -> None:
    """Show a row: its images in the system's viewer, its texts in the terminal."""
    row = {key.lower(): value for key, value in question.items()}
    cells = text_list(row.pop("image", None))
    paths = [] if cells else text_list(row.pop("image_path", None))
    cells += [encode_image_file_to_base64(path) for path in paths]
    for cell in cells:
        decode_base64_to_image(cell, target_size).show()
    lines = (f"{name.upper()}. {value}\n" for name, value in row.items() if not is_missing(value))
    write_message("".join(lines), sys.stdout)


def rescale_img(img: Image.Image, tgt: tuple[int, int]) -> Image.Image:
    """Scale an image to a width or a height; the other one is -1."""
    width, height = img.size
    if tgt[0] != -1:
        return img.resize((tgt[0], int(tgt[0] / width * height)))
    return img.resize((int(tgt[1] / height * width), tgt[1]))


def resize_image_by_factor(img: Image.Image, factor: float = 1) -> Image.Image:
    """Scale an image, down to one pixel at least."""
    return img.resize((max(1, int(img.width * factor)), max(1, int(img.height * factor))))


def concat_images_vlmeval(
    images: Sequence[str], target_size: int = -1, mode: Literal["h", "v"] = "h", return_image: bool = False
) -> Any:
    """Put images beside each other (``h``) or below each other (``v``); return the path of the new image, or itself."""
    from PIL import Image

    found = [decode_image(Path(path).read_bytes(), str(path)) for path in images]
    if not found:
        raise DataError("There are no images to put together.")
    if target_size != -1:
        found = [rescale_img(one, (-1, target_size) if mode == "h" else (target_size, -1)) for one in found]
    wide, high = [one.width for one in found], [one.height for one in found]
    size = (sum(wide), max(high)) if mode == "h" else (max(wide), sum(high))
    whole = Image.new("RGB", size)
    for i, one in enumerate(found):
        whole.paste(one, (sum(wide[:i]), 0) if mode == "h" else (0, sum(high[:i])))
    if return_image:
        return whole
    written = io.BytesIO()
    whole.save(written, "PNG")
    path = cache_root() / "images" / f"{hashlib.sha256(written.getvalue()).hexdigest()}.png"
    if not path.is_file():
        write_cached(path, written.getvalue())
    return str(path)


def build_option_str(option_dict: Mapping[str, Any]) -> str:
    """List options, a line each, as prompts of the original do."""
    lines = (f"{letter}. {text}\n" for letter, text in option_dict.items() if not is_missing(text))
    return f"There are several options: \n{''.join(lines)}"
