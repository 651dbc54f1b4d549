"""ObjectNet: the 113 of its classes that ImageNet has too, with its own names for them."""

from __future__ import annotations

from pathlib import Path

from eyechart.datasets.classes import class_info, read_class_texts
from eyechart.datasets.folder import folder_samples
from eyechart.datasets.layout import existing, own_split
from eyechart.datasets.rows import RowDataset, in_memory
from eyechart.errors import DataError
from eyechart.io.untrusted import read_json
from eyechart.types import DatasetSpec, Sample

IMAGES = ["objectnet-1.0/images", "images"]
MAPPINGS = ["objectnet-1.0/mappings", "mappings", "."]
FOLDERS = "folder_to_objectnet_label.json"
OVERLAP = "objectnet_to_imagenet_1k.json"


def open_objectnet(spec: DatasetSpec) -> RowDataset[Sample]:
    """Read the folders that the mappings match with ImageNet, sorted by folder name; names are lower-cased labels."""
    own_split(spec)
    root = Path(spec.root)
    images = existing(spec, IMAGES, "Unpack objectnet-1.0.zip there.")
    label_of_folder = _mapping(root, FOLDERS)
    overlap = _mapping(root, OVERLAP)
    folders = sorted(folder for folder, label in label_of_folder.items() if label in overlap)
    samples = [
        sample
        for label, folder in enumerate(folders)
        if (images / folder).is_dir()
        for sample in folder_samples(images / folder, label)
    ]
    names = tuple(label_of_folder[folder].lower() for folder in folders)
    texts = read_class_texts(None, spec, names)
    return in_memory(class_info(spec, "classification", texts, images), samples)


def _mapping(root: Path, file: str) -> dict[str, str]:
    path = next((root / folder / file for folder in MAPPINGS if (root / folder / file).is_file()), None)
    if path is None:
        raise DataError(f"{root} has no mappings/{file}.", advice="It is part of objectnet-1.0.zip.")
    content = read_json(path)
    if not isinstance(content, dict):
        raise DataError(f"{path} must be a mapping.")
    return {key: str(value) for key, value in content.items()}
