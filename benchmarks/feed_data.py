"""Input data: real photographs as JPEG, and the transform of most CLIP models."""

from __future__ import annotations

import io
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from PIL import Image

SIZE = (500, 375)
QUALITY = 90


@cache
def photographs() -> list[bytes]:
    """Encode the photographs that scikit-image and scikit-learn carry, all at one size."""
    folders = [Path(find_spec(name).origin).parent for name in ("skimage", "sklearn")]  # type: ignore[union-attr, arg-type]
    files = [path for folder in folders for kind in ("*.jpg", "*.png") for path in sorted(folder.rglob(kind))]
    found = []
    for path in files:
        image = Image.open(path).convert("RGB")
        if min(image.size) < 300:
            continue
        scale = max(SIZE[0] / image.width, SIZE[1] / image.height)
        width, height = (max(least, round(side * scale)) for least, side in zip(SIZE, image.size, strict=True))
        stream = io.BytesIO()
        image.resize((width, height), Image.Resampling.LANCZOS).crop((0, 0, *SIZE)).save(
            stream, "JPEG", quality=QUALITY
        )
        found.append(stream.getvalue())
    return found


@cache
def library_transform() -> Any:
    """Return the transform of most CLIP models, as implemented by open_clip."""
    import torch
    from open_clip.constants import OPENAI_DATASET_MEAN, OPENAI_DATASET_STD
    from open_clip.transform import image_transform

    torch.set_num_threads(1)
    return image_transform(224, is_train=False, mean=OPENAI_DATASET_MEAN, std=OPENAI_DATASET_STD)


def exact_transform() -> Any:
    """Return Eyechart's bit-identical transform."""
    from eyechart.models.speedups.transforms import PixelTable

    return PixelTable(library_transform())
