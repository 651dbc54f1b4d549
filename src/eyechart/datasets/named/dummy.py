"""The dummy dataset: one black picture, to see whether a model runs at all."""

from __future__ import annotations

from eyechart.datasets.classes import class_info, read_class_texts
from eyechart.datasets.pictures import from_pixels
from eyechart.datasets.rows import RowDataset
from eyechart.types import DatasetSpec, Sample

SIDE = 224


def open_dummy(spec: DatasetSpec) -> RowDataset:
    """Make the picture; the right class is the first one."""
    from PIL import Image

    picture = from_pixels(Image.new("RGB", (SIDE, SIDE)), "black picture")
    return RowDataset(
        class_info(spec, "classification", read_class_texts(None, spec), "built in"), (Sample("0", picture, label=0),)
    )
