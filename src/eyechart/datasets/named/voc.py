"""Pascal VOC: one crop per bounding box with one label, or whole images with several labels."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

from eyechart.datasets.classes import class_info, read_class_texts
from eyechart.datasets.layout import own_split, source_of
from eyechart.datasets.rows import RowDataset, in_memory
from eyechart.errors import DataError
from eyechart.io.media import ImageRef
from eyechart.io.untrusted import read_text, split_lines
from eyechart.types import DatasetSpec, Sample

CLASSES = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable", "dog",
    "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)  # fmt: skip

Corners = tuple[int, int, int, int]


def open_voc(spec: DatasetSpec) -> RowDataset[Sample]:
    """Read ``VOCdevkit/VOC2007``. Difficult objects count like all others, as in published numbers."""
    settings = source_of(spec)
    base = Path(spec.root) / "VOCdevkit" / f"VOC{settings.get('year', '2007')}"
    names = _image_names(base, own_split(spec))
    texts = read_class_texts(None, spec, CLASSES)
    if settings.get("crops", True):
        samples = [
            Sample(f"{name}/{i}", _image(base, name).crop(*corners), label=label)
            for name in names
            for i, (corners, label) in enumerate(_objects(base, name))
        ]
        return in_memory(class_info(spec, "classification", texts, base), samples)
    samples = [
        Sample(name, _image(base, name), labels=tuple(sorted({label for _, label in _objects(base, name)})))
        for name in names
    ]
    return in_memory(class_info(spec, "multilabel", texts, base), samples)


def _image(base: Path, name: str) -> ImageRef:
    return ImageRef.from_path(base / "JPEGImages" / f"{name}.jpg")


def _image_names(base: Path, split: str) -> list[str]:
    path = base / "ImageSets" / "Main" / f"{split}.txt"
    if not path.is_file():
        raise DataError(f"There is no {path}.", advice="Unpack the archives of Pascal VOC there.")
    names = [line.split()[0] for line in split_lines(read_text(path)) if line.strip()]
    if not all(name.replace("_", "").isalnum() for name in names):
        raise DataError(f"{path} must hold one image name a line.")
    return names


def _objects(base: Path, name: str) -> Iterator[tuple[Corners, int]]:
    path = base / "Annotations" / f"{name}.xml"
    try:
        tree = ET.parse(path)  # noqa: S314 - Expat limits entity expansion and loads nothing from outside
        for item in tree.iterfind("object"):
            corners = tuple(int(float(item.findtext(f"bndbox/{side}") or "")) for side in _SIDES)
            yield (corners[0], corners[1], corners[2], corners[3]), CLASSES.index(item.findtext("name") or "")
    except (OSError, ET.ParseError, ValueError, OverflowError) as error:
        raise DataError(f"{path} is not an annotation of Pascal VOC ({error}).") from error


_SIDES = ("xmin", "ymin", "xmax", "ymax")
