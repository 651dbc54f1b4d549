"""The dummy dataset: one black image, to see whether a model runs at all."""

from __future__ import annotations

from eyechart.datasets.classes import class_info, read_class_texts
from eyechart.datasets.images import from_pixels
from eyechart.datasets.rows import RowDataset, in_memory
from eyechart.types import DatasetSpec, Sample

SIDE = 224


def open_dummy(spec: DatasetSpec) -> RowDataset[Sample]:
    """Make the image; the right class is the first one."""
    from PIL import Image

    image = from_pixels(Image.new("RGB", (SIDE, SIDE)), "black image")
    return in_memory(
        class_info(spec, "classification", read_class_texts(None, spec), "built in"), (Sample("0", image, label=0),)
    )
