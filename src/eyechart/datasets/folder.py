"""A plain folder of images, one subfolder per class: ``class name/image.jpg``."""

from __future__ import annotations

from pathlib import Path

from eyechart.datasets.classes import class_info, read_class_texts
from eyechart.datasets.layout import COMMON_SPLITS, check_only_split, first_existing, no_such_split, own_split
from eyechart.datasets.rows import RowDataset
from eyechart.errors import DataError
from eyechart.io.media import ImageRef
from eyechart.io.names import by_name, file_name
from eyechart.types import DatasetSpec, Sample

EXTENSIONS = frozenset({
    ".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".avif", ".gif", ".bmp", ".dib", ".tif", ".tiff",
    ".ppm", ".pgm", ".pbm", ".pnm", ".jp2", ".j2k",
})  # fmt: skip
"""How the names of images end, in any case: all formats that are decoded."""


def open_folder(spec: DatasetSpec) -> RowDataset:
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
    names = tuple(map(file_name, folders))
    texts = read_class_texts(root, spec, tuple(name.replace("_", " ") for name in names))
    if texts.classnames and len(texts.classnames) != len(folders):
        raise DataError(f"{spec.name}: {len(texts.classnames)} class names for {len(folders)} folders in {base}.")
    samples = [
        Sample(f"{names[label]}/{file_name(path)}", ImageRef.from_path(path), label=label)
        for label, folder in enumerate(folders)
        for path in images_in(folder)
    ]
    return RowDataset(class_info(spec, "classification", texts, base), tuple(samples))


def _base(root: Path, spec: DatasetSpec) -> Path:
    """Return the folder of class folders: what the catalogue says, else the split's folder, else the undivided root."""
    candidates = spec.options.get("source", {}).get("folders")
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
    """Return the subfolders that hold images, sorted by name."""
    return by_name(path for path in base.iterdir() if path.is_dir() and any(map(_is_image, path.iterdir())))


def images_in(folder: Path) -> list[Path]:
    """Return the image files of a folder, sorted by name."""
    return by_name(filter(_is_image, folder.iterdir()))


def _is_image(path: Path) -> bool:
    """Tell by the name; what cannot be read is not left out here, but found when it is read."""
    return path.suffix.lower() in EXTENSIONS and not path.is_dir()
