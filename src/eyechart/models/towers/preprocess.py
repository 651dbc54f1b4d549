"""The image transform of a ``preprocessor_config.json`` (the transformers format), with Pillow and numpy only."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from eyechart.errors import DataError, ModelError
from eyechart.io.images import MAX_PIXELS

MAX_SIDE = 8192
"""Largest side of a plausible model input."""
MAX_FACTOR = 1e6
"""Limit of scale and shift factors; also excludes NaN and infinity."""
SOURCE = "The preprocessor config"
STEPS = ("do_resize", "do_center_crop", "do_rescale", "do_normalize", "do_convert_rgb")
OTHER_STEPS = ("rescale_offset", "include_top", "crop_pct", "size_divisor", "max_num_patches")
"""Further steps of some transforms, which are not supported."""
EDGE_KINDS = ("", "CLIP", "ChineseCLIP", "Bit")
"""Processors that interpret a single size as the shorter side; others mean a square."""


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
        """Read the keys that transformers writes; errors refer to the file ``source``."""
        check_config(config, source)
        active = [key for key, value in config.items() if value and (key.startswith("do_") or key in OTHER_STEPS)]
        unknown = sorted(set(active) - set(STEPS))
        if unknown:
            raise ModelError(
                "{source} requires {first}, which is not supported.",
                advice="Load the model with transformers instead of its ONNX export.",
                source=source,
                first=unknown[0],
            )
        crop = config.get("crop_size") if config.get("do_center_crop") else None
        size = config.get("size") if config.get("do_resize", True) else None
        kind = str(config.get("image_processor_type") or config.get("feature_extractor_type") or "")
        square = re.sub("(ImageProcessor|FeatureExtractor).*", "", kind) not in EDGE_KINDS
        if size is not None and not isinstance(size, Mapping) and square:  # the vectors would differ
            raise ModelError(
                "{source}: the size {size} is ambiguous for {config}: shorter side or square.",
                advice="Write it as shortest_edge, or as height and width.",
                source=source,
                size=size,
                config=kind,
            )
        edge = size.get("shortest_edge") if isinstance(size, Mapping) else size
        normalise = config.get("do_normalize", True)
        if normalise and not {"image_mean", "image_std"} <= config.keys():
            raise ModelError("{source} lacks image_mean and image_std for normalisation.", source=source)
        return cls(
            resize=int(edge) if edge else None if size is None else _pair(size, source),
            crop=_pair(crop, source) if crop is not None else None,
            resample=int(config.get("resample", Image.Resampling.BICUBIC)),
            scale=float(config.get("rescale_factor", 1 / 255)) if config.get("do_rescale", True) else 1.0,
            mean=_channels(config["image_mean"]) if normalise else (0.0,) * 3,
            std=_channels(config["image_std"]) if normalise else (1.0,) * 3,
        )

    def __call__(self, image: Image.Image) -> NDArray[np.float32]:
        """Return a (3, height, width) array."""
        image = image.convert("RGB")
        size = self.resize
        if isinstance(size, int):
            check_scaled(image, size)
            shorter = min(image.size)
            size = max(1, image.width * size // shorter), max(1, image.height * size // shorter)
        if size is not None:
            image = image.resize(size, Image.Resampling(self.resample))
        if self.crop is not None:
            left, top = (image.width - self.crop[0]) // 2, (image.height - self.crop[1]) // 2
            image = image.crop((left, top, left + self.crop[0], top + self.crop[1]))
        pixels = np.asarray(image, np.float32) * np.float32(self.scale)
        pixels -= np.array(self.mean, np.float32)
        pixels /= np.array(self.std, np.float32)
        return np.ascontiguousarray(pixels.transpose(2, 0, 1))


def check_config(config: Mapping[str, Any], source: str) -> None:
    """Refuse implausible sizes and factors, which would exhaust memory or produce empty images."""
    for key, fits in _CHECKS.items():
        value = config.get(key)
        if value is not None and not fits(value):
            raise ModelError(
                "{path}: invalid value of {name}: {value}.",
                advice="Copy or download it again.",
                path=source,
                name=key,
                value=str(value)[:100],
            )


def _is_size(value: Any) -> bool:
    sides = value.values() if isinstance(value, Mapping) else [value]
    return all(side is None or (isinstance(side, int) and 1 <= side <= MAX_SIDE) for side in sides)


def _are_factors(value: Any) -> bool:
    return all(isinstance(factor, int | float) and abs(factor) < MAX_FACTOR for factor in _channels(value))


_CHECKS: dict[str, Callable[[Any], bool]] = {
    "size": _is_size,
    "crop_size": _is_size,
    "resample": lambda value: value in list(Image.Resampling),
    "rescale_factor": lambda value: not isinstance(value, list | tuple) and _are_factors(value) and value > 0,
    "image_mean": _are_factors,
    "image_std": lambda value: _are_factors(value) and all(_channels(value)),
}
"""Validators of the keys that enter the transform."""


def shorter_edge(config: Mapping[str, Any]) -> int | None:
    """Return the length that the shorter side is scaled to, if the config defines it this way."""
    size = config.get("size")
    edge: int | None = size.get("shortest_edge") if isinstance(size, Mapping) else size
    return edge


def _pair(size: Any, source: str) -> tuple[int, int]:
    if not isinstance(size, Mapping):
        return int(size), int(size)
    if not (size.get("height") and size.get("width")):
        raise ModelError(
            "{source}: invalid size {size!r}.", advice="It needs height and width.", source=source, size=size
        )
    return int(size["width"]), int(size["height"])


def _channels(value: Any) -> tuple[float, ...]:
    return tuple(value) if isinstance(value, list | tuple) else (value,) * 3


def check_scaled(image: Image.Image, edge: int) -> None:
    """Refuse a long strip whose scaled version would be gigantic."""
    pixels = edge * edge * max(image.size) // min(image.size)
    if pixels > MAX_PIXELS:
        raise DataError(
            "An image of {width} x {height} would have {pixels} pixels when resized for this model, "
            "more than the limit of {max_pixels}.",
            advice="Crop it, or remove it from the dataset.",
            width=image.width,
            height=image.height,
            pixels=pixels,
            max_pixels=MAX_PIXELS,
        )
