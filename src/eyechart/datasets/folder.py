"""A plain folder of images, one subfolder per class: ``class name/image.jpg``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from eyechart.datasets.classes import check_order, class_info, read_class_texts
from eyechart.datasets.layout import (
    COMMON_SPLITS,
    check_only_split,
    first_existing,
    no_such_split,
    own_split,
    source_of,
)
from eyechart.datasets.rows import RowDataset, in_memory
from eyechart.errors import DataError
from eyechart.io.media import ImageRef
from eyechart.io.names import by_name, file_name, shown
from eyechart.types import DatasetInfo, DatasetSpec, Notice, Sample

EXTENSIONS = frozenset({
    ".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".avif", ".gif", ".bmp", ".dib", ".tif", ".tiff",
    ".ppm", ".pgm", ".pbm", ".pnm", ".jp2", ".j2k",
})  # fmt: skip
"""How the names of images end, in any case: all formats that are decoded."""
_CLUTTER = frozenset({".DS_Store", "Thumbs.db", "desktop.ini"})
"""What file managers leave behind."""


def open_folder(spec: DatasetSpec) -> RowDataset[Sample]:
    """Read class folders: those in the folder named like the split, or the root's own, which are the split "test".

    Class names are the folders' names in sorted order with underscores as spaces; a ``classnames.txt`` beside them
    (one name per folder, in that order), the catalogue or ``--custom_classname_file`` replaces them.
    """
    root = Path(spec.root)
    if not root.is_dir():
        raise DataError(f"There is no folder {root}.", advice="Check --dataset_root.")
    base = _base(root, spec)
    folders = class_folders(base)
    if not folders:
        raise DataError(f"{base} has no folders with images.", advice="Put images into one folder per class.")
    names = tuple(file_name(folder).replace("_", " ") for folder in folders)
    texts = read_class_texts(root, spec, names)
    if texts.classnames and len(texts.classnames) != len(folders):
        raise DataError(f"{spec.name}: {len(texts.classnames)} class names for {len(folders)} folders in {base}.")
    check_order(f"{spec.name}: the folders in {base}", names, texts.classnames)
    samples = [sample for label, folder in enumerate(folders) for sample in folder_samples(folder, label)]
    return in_memory(with_unread(class_info(spec, "classification", texts, base), base), samples)


def _base(root: Path, spec: DatasetSpec) -> Path:
    """Return the folder of class folders: what the catalogue says, else the split's folder, else the undivided root."""
    candidates = source_of(spec).get("folders")
    split = own_split(spec)
    if candidates is None:
        return root / split if (root / split).is_dir() else _undivided(root, spec)
    found = first_existing(root, candidates, split=split)
    if found is None:
        raise DataError(f"{spec.name}: {root} has none of {', '.join(candidates)}.", advice="Check --dataset_root.")
    return found


def _undivided(root: Path, spec: DatasetSpec) -> Path:
    """Return the root if it holds classes and no splits, and the split of such a folder is meant."""
    known = [name for name in COMMON_SPLITS if (root / name).is_dir() and class_folders(root / name)]
    if known:
        raise no_such_split(spec.name, spec.split, known)
    check_only_split(spec, "A folder is divided by folders in it, such as train and test, each with all classes.")
    return root


def class_folders(base: Path) -> list[Path]:
    """Return the subfolders that hold images, sorted by name; hidden ones are not meant."""
    return by_name(folder for folder in subfolders(base) if any(_images(folder)) and not folder.name.startswith("."))


def folder_samples(folder: Path, label: int) -> Iterator[Sample]:
    """Yield the images of a class folder, sorted by name; what cannot be read is found when it is read."""
    for path in by_name(_images(folder)):
        yield Sample(f"{file_name(folder)}/{file_name(path)}", ImageRef.from_path(path), label=label)


def with_unread(info: DatasetInfo, base: Path) -> DatasetInfo:
    """Note what lies among the classes and is not read: a class may be smaller for it, or be missing."""
    folders = class_folders(base)
    empty = list({*subfolders(base)}.difference(folders))
    deep = [inner for folder in subfolders(base) for inner in subfolders(folder) if any(_images(inner))]
    strange = [
        path for folder in folders for path in _files(folder) if not _is_image(path) and path.name not in _CLUTTER
    ]
    found = (
        ("unread_images", list(_images(base)), "images lie beside the class folders, in no class, and are not read"),
        ("unread_folders", deep, "folders of images lie within class folders and are not read"),
        ("folders_without_images", empty, "folders hold no images, or are hidden, and count as no classes"),
        ("unread_files", strange, "files in class folders do not end as images do, and are not read"),
    )
    notes = [
        Notice(kind, len(paths), f"{len(paths)} {text}, such as {shown(by_name(paths)[0])}.")
        for kind, paths, text in found
        if paths
    ]
    return replace(info, notes=(*info.notes, *notes))


def subfolders(base: Path) -> list[Path]:
    """Return the folders in a folder."""
    with os.scandir(base) as entries:
        return [Path(entry.path) for entry in entries if entry.is_dir()]


def _files(folder: Path) -> Iterator[Path]:
    with os.scandir(folder) as entries:
        yield from (Path(entry.path) for entry in entries if not entry.is_dir())


def _images(folder: Path) -> Iterator[Path]:
    """Yield what is an image by its name."""
    return filter(_is_image, _files(folder))


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in EXTENSIONS
