"""ImageNet-W: ImageNet with the watermark that models mistake for cardboard boxes."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from eyechart.datasets.classes import class_info, read_class_texts
from eyechart.datasets.images import from_pixels
from eyechart.datasets.mapped import MappedDataset
from eyechart.datasets.named.babel import open_base
from eyechart.errors import import_extra
from eyechart.io.media import to_rgb
from eyechart.types import DatasetSpec, Sample

SIDE = 224
"""The watermark's size is fixed in pixels, so the image is brought to the usual input size first."""


def open_imagenet_w(spec: DatasetSpec) -> MappedDataset:
    """Draw the watermark of the package ``imagenet-w`` on ImageNet's images."""
    import_extra("imagenet_w", "imagenet-w")  # found here or refused here, not in the middle of a run
    base = open_base(spec)
    texts = read_class_texts(None, spec)
    info = class_info(spec, "classification", texts, base.info.source)
    return MappedDataset(base, info, _watermarked, f"watermark at {SIDE}")


@cache
def _watermark() -> Any:
    from imagenet_w import AddWatermark

    return AddWatermark(SIDE)


def _watermarked(sample: Sample) -> Sample:
    from torchvision.transforms import functional

    image = to_rgb(sample.need_image().decode())
    image = functional.resize(image, SIDE, functional.InterpolationMode.BICUBIC)
    tensor = functional.to_tensor(functional.center_crop(image, [SIDE, SIDE]))
    marked = functional.to_pil_image(_watermark()(tensor).clamp(0, 1))
    return replace(sample, image=from_pixels(marked, f"{sample.need_image().source} with watermark"))
