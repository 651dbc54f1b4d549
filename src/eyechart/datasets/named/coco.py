"""COCO captions: the annotation format of COCO with the Karpathy splits, and COCO-CN in the same format."""

from __future__ import annotations

from pathlib import Path

from eyechart.datasets.images import ImageFinder
from eyechart.datasets.named.annotations import annotation_file, captions_info
from eyechart.datasets.rows import RowDataset
from eyechart.errors import DataError
from eyechart.io.untrusted import read_json
from eyechart.types import DatasetSpec, Sample


def open_coco(spec: DatasetSpec) -> RowDataset:
    """Read images by ascending id, as pycocotools and torchvision do, with their captions in the file's order."""
    path = annotation_file(spec)
    content = read_json(path)
    try:
        names = {int(image["id"]): str(image["file_name"]) for image in content["images"]}
        captions: dict[int, list[str]] = {number: [] for number in sorted(names)}
        for annotation in content["annotations"]:
            captions[int(annotation["image_id"])].append(str(annotation["caption"]))
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path} is not in COCO's caption format ({error!r}).") from error
    finder = ImageFinder(Path(spec.root), spec.options.get("source", {}).get("images", ["{image}"]))
    samples = tuple(
        Sample(str(number), ref, texts=tuple(texts))
        for number, texts in captions.items()
        if (ref := finder.find(names[number]))
    )
    finder.raise_if_missing(path)
    return RowDataset(captions_info(spec, path), samples)
