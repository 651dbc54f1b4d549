"""ImageNet and its relatives: one folder per class, named by WordNet id (or, for ImageNet-V2, by class number).

Labels come from the folder's name, not from its place in the list, so that a folder with some classes only still has
the right ones. Classes and images are in sorted order, as torchvision's ImageFolder has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eyechart.datasets.classes import class_info, read_class_texts
from eyechart.datasets.folder import class_folders, folder_samples, with_unread
from eyechart.datasets.imagenet_classes import N_CLASSES, subset_indices, wnids
from eyechart.datasets.layout import ONLY_SPLIT, first_existing, own_split, source_of
from eyechart.datasets.rows import RowDataset, in_memory
from eyechart.errors import DataError
from eyechart.types import DatasetSpec, Sample


def open_imagenet(spec: DatasetSpec) -> RowDataset[Sample]:
    """Read class folders; the split's folder, or another one that the catalogue names, or the root itself."""
    settings = source_of(spec)
    root = Path(spec.root)
    split = own_split(spec)
    candidates = settings.get("folders", ["{split}", "."] if spec.split == ONLY_SPLIT else ["{split}"])
    base = first_existing(root, candidates, split=split) if root.is_dir() else None
    if base is None:
        where = f"folder {split} in {root}" if root.is_dir() else f"folder {root}"
        raise DataError(f"{spec.name}: there is no {where}.", advice="Check --split and --dataset_root.")
    subset = subset_indices(spec.options.get("prompts", {}).get("subset", ""))
    label_of = _labels(settings, subset)
    folders = class_folders(base)
    unknown = [folder.name for folder in folders if folder.name not in label_of]
    if unknown or not folders:
        what = f"folders that are no class of it, such as {unknown[0]!r}" if unknown else "no folders with images"
        raise DataError(
            f"{spec.name}: {base} has {what}.",
            advice=f"It must have one folder per class, such as {next(iter(label_of))}.",
        )
    samples = [sample for folder in folders for sample in folder_samples(folder, label_of[folder.name])]
    info = class_info(spec, "classification", read_class_texts(None, spec), base)
    return in_memory(with_unread(info, base), samples)


def _labels(settings: Mapping[str, Any], subset: tuple[int, ...]) -> dict[str, int]:
    """Map the folder names that may occur to labels."""
    names = [str(i) for i in range(N_CLASSES)] if settings.get("labels") == "number" else list(wnids())
    return {names[index]: label for label, index in enumerate(subset)}
