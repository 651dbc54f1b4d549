"""The image transform of a ``preprocessor_config.json`` (the transformers format), with Pillow and numpy only."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from eyechart.errors import DataError, ModelError
from eyechart.io.media import MAX_PIXELS

MAX_SIDE = 8192
"""Pixels of a side that a model may ask for; a larger number is no size of a model's input."""
MAX_FACTOR = 1e6
"""What pixels may be scaled and shifted by; neither NaN nor infinity is below it."""
SOURCE = "The preprocessor config"
STEPS = ("do_resize", "do_center_crop", "do_rescale", "do_normalize", "do_convert_rgb")
OTHER_STEPS = ("rescale_offset", "include_top", "crop_pct", "size_divisor", "max_num_patches")
"""What some transforms do besides; none of it is done here."""
EDGE_KINDS = ("", "CLIP", "ChineseCLIP", "Bit")
"""Whose transforms mean the shorter side where a size is one number; those of others mean a square."""


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
    def from_config(cls, config: Mapping[str, Any], source: str = SOURCE) -> Self:
        """Read the keys that transformers writes; an error names ``source``, the file."""
        check_config(config, source)
        _check_steps(config, source)
        size = config.get("size") if config.get("do_resize", True) else None
        crop = config.get("crop_size") if config.get("do_center_crop") else None
        normalise = config.get("do_normalize", True)
        if normalise and not {"image_mean", "image_std"} <= config.keys():
            raise ModelError(f"{source} has no image_mean and image_std to normalise with.")
        return cls(
            resize=_size(size, source) if size is not None else None,
            crop=_pair(crop, source) if crop is not None else None,
            resample=int(config.get("resample", Image.Resampling.BICUBIC)),
            scale=float(config.get("rescale_factor", 1 / 255)) if config.get("do_rescale", True) else 1.0,
            mean=_channels(config["image_mean"]) if normalise else (0.0,) * 3,
            std=_channels(config["image_std"]) if normalise else (1.0,) * 3,
        )

    def __call__(self, image: Image.Image) -> NDArray[np.float32]:
        """Transform one image to a (3, height, width) array."""
        image = image.convert("RGB")
        if self.resize is not None:
            image = image.resize(_target(image, self.resize), Image.Resampling(self.resample))
        if self.crop is not None:
            left, top = (image.width - self.crop[0]) // 2, (image.height - self.crop[1]) // 2
            image = image.crop((left, top, left + self.crop[0], top + self.crop[1]))
        pixels = np.asarray(image, np.float32) * np.float32(self.scale)
        pixels -= np.array(self.mean, np.float32)
        pixels /= np.array(self.std, np.float32)
        return np.ascontiguousarray(pixels.transpose(2, 0, 1))


def check_config(config: Mapping[str, Any], source: str) -> None:
    """Refuse sizes and numbers that no model has: an image would fill the memory, or become nothing.

    Raises:
        ModelError: It names ``source`` and the key.
    """
    for key, fits in _CHECKS.items():
        value = config.get(key)
        if value is not None and not fits(value):
            raise ModelError(f"{source}: {key} cannot be {str(value)[:100]}.", advice="Copy or download it again.")


def _check_steps(config: Mapping[str, Any], source: str) -> None:
    """Refuse a step that is not done here, and a size that may mean two things: the vectors would be others."""
    asked = [key for key, value in config.items() if value and (key.startswith("do_") or key in OTHER_STEPS)]
    unknown = sorted(set(asked) - set(STEPS))
    if unknown:
        raise ModelError(
            f"{source} asks for {unknown[0]}, which is not done here.",
            advice="Load the model with transformers instead of its ONNX export.",
        )
    kind = re.sub("(ImageProcessor|FeatureExtractor).*", "", str(_kind_of(config)))
    if isinstance(config.get("size"), int) and config.get("do_resize", True) and kind not in EDGE_KINDS:
        raise ModelError(
            f"{source}: the size {config['size']} may be the shorter side or a square for {_kind_of(config)}.",
            advice="Write it as shortest_edge, or as height and width.",
        )


def _kind_of(config: Mapping[str, Any]) -> Any:
    return config.get("image_processor_type") or config.get("feature_extractor_type") or ""


def _is_size(value: Any) -> bool:
    sides = value.values() if isinstance(value, Mapping) else [value]
    return all(side is None or (isinstance(side, int) and 1 <= side <= MAX_SIDE) for side in sides)


def _is_factor(value: Any) -> bool:
    return isinstance(value, int | float) and abs(value) < MAX_FACTOR


def _are_channels(value: Any) -> bool:
    return all(map(_is_factor, _channels(value)))


_CHECKS: dict[str, Callable[[Any], bool]] = {
    "size": _is_size,
    "crop_size": _is_size,
    "resample": lambda value: value in list(Image.Resampling),
    "rescale_factor": lambda value: _is_factor(value) and value > 0,
    "image_mean": _are_channels,
    "image_std": lambda value: _are_channels(value) and all(_channels(value)),
}
"""What may stand under the keys whose numbers go into the transform."""


def shorter_edge(config: Mapping[str, Any]) -> int | None:
    """Return the length that the shorter side of an image is scaled to, if that is how the config means it."""
    size = config.get("size")
    edge: int | None = size.get("shortest_edge") if isinstance(size, Mapping) else size
    return edge


def _size(size: Any, source: str) -> tuple[int, int] | int:
    if not isinstance(size, Mapping):
        return int(size)
    return int(size["shortest_edge"]) if size.get("shortest_edge") else _pair(size, source)


def _pair(size: Any, source: str) -> tuple[int, int]:
    if not isinstance(size, Mapping):
        return int(size), int(size)
    if not (size.get("height") and size.get("width")):
        raise ModelError(f"{source}: a size cannot be {size!r}.", advice="It needs height and width.")
    return int(size["width"]), int(size["height"])


def _channels(value: Any) -> tuple[float, ...]:
    return tuple(value) if isinstance(value, list | tuple) else (value,) * 3


def _target(image: Image.Image, resize: tuple[int, int] | int) -> tuple[int, int]:
    if isinstance(resize, tuple):
        return resize
    check_scaled(image, resize)
    width, height = image.size
    shorter = min(width, height)
    return max(1, width * resize // shorter), max(1, height * resize // shorter)


def check_scaled(image: Image.Image, edge: int) -> None:
    """Refuse a long strip that would be gigantic once its shorter side has the model's size."""
    pixels = edge * edge * max(image.size) // min(image.size)
    if pixels > MAX_PIXELS:
        raise DataError(
            f"An image of {image.width} x {image.height} pixels would have {pixels} in this model's size, more than "
            f"the limit of {MAX_PIXELS}.",
            advice="Cut it, or leave it out of the dataset.",
        )
