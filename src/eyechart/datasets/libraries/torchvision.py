"""torchvision's dataset classes: the catalogue names the class and its arguments."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from eyechart.datasets.classes import class_info, read_class_texts
from eyechart.datasets.content import digest_samples
from eyechart.datasets.images import from_pixels
from eyechart.datasets.layout import own_split
from eyechart.datasets.rows import RowDataset
from eyechart.errors import DataError, NotHereError, first_line, import_extra
from eyechart.io.digests import files_digest
from eyechart.io.media import ImageRef
from eyechart.io.names import shown
from eyechart.types import DatasetSpec, Sample, digest_json


def open_torchvision(spec: DatasetSpec) -> RowDataset[int]:
    """Build the class on the root folder; if the data is not there, torchvision downloads and checks it.

    Class names are those of the catalogue's prompt pack, else torchvision's own, with the characters in ``spaces``
    replaced by spaces. Images that are files stay as they are; arrays become PNG.
    """
    settings = spec.options["source"]
    dataset = _build(spec, settings)
    spaces = str.maketrans(dict.fromkeys(settings.get("spaces", ""), " "))
    names = tuple(str(name).translate(spaces) for name in getattr(dataset, "classes", ()))
    texts = read_class_texts(None, spec, names)
    info = class_info(spec, "classification", texts, f"{settings['dataset']} in {spec.root}")
    make = _Maker(dataset, _listed_files(dataset), spec.root)
    order: Sequence[int] = range(len(dataset))
    if settings.get("sort"):
        # torchvision lists these files as the file system does, which differs from machine to machine.
        order = sorted(order, key=lambda index: str(dataset[index][0]))
    return RowDataset(info, order, make, partial(_content, spec, settings, make, order))


@dataclass(frozen=True)
class _Maker:
    dataset: Any
    files: list[tuple[Any, Any]] | None
    root: str

    def __call__(self, index: int) -> Sample:
        image, label = self.files[index] if self.files is not None else self.dataset[index]
        if isinstance(image, str | Path):
            path = Path(image)
            name = path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else path.name
            return Sample(shown(name), ImageRef.from_path(path), label=int(label))
        return Sample(str(index), from_pixels(image, f"{self.root} image {index}"), label=int(label))


def _build(spec: DatasetSpec, settings: dict[str, Any]) -> Any:
    library = import_extra("torchvision.datasets", "torchvision")
    kind = getattr(library, settings["dataset"])
    arguments = dict(settings.get("arguments", {}))
    split, argument = own_split(spec), settings.get("split_argument")
    if argument:
        arguments[argument] = split == "train" if argument == "train" else split
    if "loader" in inspect.signature(kind).parameters:
        arguments["loader"] = _same
    try:
        return kind(root=spec.root, download=False, **arguments)
    except (RuntimeError, OSError) as error:
        if spec.options.get("offline") or not settings.get("download", True):
            raise (NotHereError if settings.get("download", True) else DataError)(
                f"{spec.name}: torchvision finds no whole {settings['dataset']} in {spec.root} ({first_line(error)}).",
                advice=f"See `eyechart info {spec.options.get('entry', spec.name)}` for how to get it.",
            ) from error
    return _download(kind, spec, arguments)


def _download(kind: Any, spec: DatasetSpec, arguments: dict[str, Any]) -> Any:
    Path(spec.root).mkdir(parents=True, exist_ok=True)
    try:
        return kind(root=spec.root, download=True, **arguments)
    except (RuntimeError, OSError, ValueError) as error:
        raise DataError(
            f"{spec.name}: torchvision could not download {kind.__name__} to {spec.root} ({first_line(error)}).",
            advice=f"Check the network, or see `eyechart info {spec.options.get('entry', spec.name)}`.",
        ) from error


def _same(path: Any) -> Any:
    """Load nothing: the path itself is what we want."""
    return path


def _listed_files(dataset: Any) -> list[tuple[Any, Any]] | None:
    """Return paths and labels of the two classes that cannot be given a loader; without them images are decoded."""
    if hasattr(dataset, "_samples") and type(dataset).__name__ == "GTSRB":
        return list(dataset._samples)
    if hasattr(dataset, "_images") and type(dataset).__name__ == "OxfordIIITPet":
        return list(zip(dataset._images, dataset._labels, strict=True))
    return None


def _content(spec: DatasetSpec, settings: dict[str, Any], make: _Maker, order: Sequence[int]) -> str:
    """Digest the samples if images are files; arrays would have to be encoded, so the files that hold them stand in."""
    folders = [path for pattern in settings.get("present", ()) for path in Path(spec.root).glob(pattern)]
    files = [file for folder in folders for file in folder.rglob("*") if file.is_file()]
    if not files or (order and make(order[0]).need_image().path is not None):
        return digest_samples(map(make, order))
    return digest_json(
        [settings["dataset"], settings.get("arguments"), spec.split, files_digest(files, Path(spec.root))]
    )
