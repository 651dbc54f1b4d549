"""The image transform of a ``preprocessor_config.json`` (the transformers format), with Pillow and numpy only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from eyechart.errors import ModelError


@dataclass(frozen=True)
class Preprocess:
    """RGB, resize, centre crop, scale and normalise, in that order."""

    resize: tuple[int, int] | int | None
    """(width, height), or the length of the shorter side."""
    crop: tuple[int, int] | None
    resample: int
    scale: float
    mean: tuple[float, ...]
    std: tuple[float, ...]

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Preprocess:
        """Read the keys that transformers writes."""
        size = config.get("size") if config.get("do_resize", True) else None
        crop = config.get("crop_size") if config.get("do_center_crop") else None
        normalise = config.get("do_normalize", True)
        return cls(
            resize=_size(size) if size is not None else None,
            crop=_pair(crop) if crop is not None else None,
            resample=int(config.get("resample", Image.Resampling.BICUBIC)),
            scale=float(config.get("rescale_factor", 1 / 255)) if config.get("do_rescale", True) else 1.0,
            mean=tuple(config["image_mean"]) if normalise else (0.0,) * 3,
            std=tuple(config["image_std"]) if normalise else (1.0,) * 3,
        )

    def __call__(self, image: Image.Image) -> NDArray[np.float32]:
        """Transform one image to a (3, height, width) array."""
        image = image.convert("RGB")
        if self.resize is not None:
            image = image.resize(_target(image, self.resize), Image.Resampling(self.resample))
        if self.crop is not None:
            image = _centre(image, self.crop)
        pixels = np.asarray(image, np.float32) * np.float32(self.scale)
        pixels -= np.array(self.mean, np.float32)
        pixels /= np.array(self.std, np.float32)
        return np.ascontiguousarray(pixels.transpose(2, 0, 1))


def _size(size: Any) -> tuple[int, int] | int:
    if isinstance(size, int):
        return size
    if "shortest_edge" in size:
        return int(size["shortest_edge"])
    return _pair(size)


def _pair(size: Any) -> tuple[int, int]:
    if isinstance(size, int):
        return size, size
    if not {"height", "width"} <= set(size):
        raise ModelError(f"The preprocessor config has a size that is not understood: {size!r}.")
    return int(size["width"]), int(size["height"])


def _target(image: Image.Image, resize: tuple[int, int] | int) -> tuple[int, int]:
    if isinstance(resize, tuple):
        return resize
    width, height = image.size
    shorter = min(width, height)
    return max(1, width * resize // shorter), max(1, height * resize // shorter)


def _centre(image: Image.Image, crop: tuple[int, int]) -> Image.Image:
    left, top = (image.width - crop[0]) // 2, (image.height - crop[1]) // 2
    return image.crop((left, top, left + crop[0], top + crop[1]))
