"""Pictures as a local model takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eyechart.api.images import to_plain
from eyechart.media import Picture

if TYPE_CHECKING:
    from PIL import Image


def for_model(picture: Picture, max_edge: int | None) -> Image.Image:
    """Decode a picture upright, on white where it is transparent, in RGB, no longer than ``max_edge``.

    The same conversion as for servers, so that a model sees the same picture wherever it runs.
    """
    from PIL import Image, ImageOps

    plain = to_plain(ImageOps.exif_transpose(picture.decode())).convert("RGB")
    if max_edge is not None and max(plain.size) > max_edge:
        plain.thumbnail((max_edge, max_edge), Image.Resampling.LANCZOS)
    return plain
