"""Images as a local model takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eyechart.api.images import to_plain
from eyechart.io.media import ImageRef

if TYPE_CHECKING:
    from PIL import Image


def for_model(image: ImageRef, max_edge: int | None) -> Image.Image:
    """Decode an image upright, on white where it is transparent, in RGB, no longer than ``max_edge``.

    The same conversion as for servers, so that a model sees the same image wherever it runs.
    """
    from PIL import Image, ImageOps

    plain = to_plain(ImageOps.exif_transpose(image.decode())).convert("RGB")
    if max_edge is not None and max(plain.size) > max_edge:
        plain.thumbnail((max_edge, max_edge), Image.Resampling.LANCZOS)
    return plain
