"""``clip_benchmark.webdataset_builder``: a script's own dataset as a webdataset folder."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eyechart.cli import main_export_wds
from eyechart.datasets.wds.export import MAX_COUNT, MAX_SIZE, export_webdataset
from eyechart.datasets.wds.recode import FORMATS
from eyechart.errors import DataError, unknown_name
from eyechart.io.media import ImageRef
from eyechart.types import DatasetInfo, Kind, Sample

__all__ = ["PIL_to_bytes", "convert_dataset", "convert_retrieval_dataset", "main", "path_to_bytes"]

main = main_export_wds


def PIL_to_bytes(image_format: str) -> Callable[[Any], bytes]:  # noqa: N802 - the name that scripts import
    """Return a transform that writes an image in a format: webp (lossless), png or jpg."""
    if image_format not in FORMATS:
        raise unknown_name("image format", image_format, FORMATS)

    def transform(image: Any) -> bytes:
        stream = io.BytesIO()
        image.save(stream, **FORMATS[image_format])
        return stream.getvalue()

    return transform


def path_to_bytes(filepath: str) -> bytes:
    """Return the bytes of a file."""
    return Path(filepath).read_bytes()


def convert_dataset(
    dataset: Any,
    split: str,
    output_folder: str,
    *,
    transform: Callable[[Any], Any] | None = None,
    image_format: str = "webp",
    max_count: int = MAX_COUNT,
    max_size: int = MAX_SIZE,
    multilabel: bool = False,
    verbose: bool = True,  # nothing is printed here
) -> None:
    """Write pairs of image and label, which are numbers or (``multilabel``) vectors of zeros and ones.

    Images are paths with ``transform=path_to_bytes``, PIL images with ``transform=PIL_to_bytes(...)``, or bytes. Class
    names and templates are the dataset's ``classes`` and ``templates``, if it has them.
    """
    kind: Kind = "multilabel" if multilabel else "classification"
    _write(_Pairs(dataset, split, kind, transform or _format(image_format)), output_folder, max_count, max_size)


def convert_retrieval_dataset(
    dataset: Any,
    split: str,
    output_folder: str,
    *,
    transform: Callable[[Any], Any] | None = None,
    image_format: str = "webp",
    max_count: int = MAX_COUNT,
    max_size: int = MAX_SIZE,
    verbose: bool = True,  # nothing is printed here
) -> None:
    """Write pairs of image and list of captions; images are as in `convert_dataset`."""
    _write(_Pairs(dataset, split, "retrieval", transform or _format(image_format)), output_folder, max_count, max_size)


def _write(pairs: _Pairs, folder: str, max_count: int, max_size: int) -> None:
    export_webdataset([pairs], Path(folder), max_count=max_count, max_size=max_size, overwrite=True)


def _format(image_format: str) -> Callable[[Any], Any]:
    """Leave bytes as they are, and write what is a PIL image all the same."""
    write = PIL_to_bytes(image_format)
    return lambda image: image if isinstance(image, bytes) else write(image)


@dataclass(frozen=True)
class _Pairs:
    """A script's dataset as one of ours: a single shard."""

    pairs: Any
    split: str
    kind: Kind
    transform: Callable[[Any], Any]
    name: str = "dataset"

    @property
    def info(self) -> DatasetInfo:
        classes = tuple(getattr(self.pairs, "classes", None) or ())
        if self.kind == "multilabel" and not classes:
            raise DataError("A multilabel dataset needs class names.", advice="Give it an attribute `classes`.")
        templates = tuple(getattr(self.pairs, "templates", None) or ())
        named = self.kind != "retrieval"
        return DatasetInfo(
            self.name, self.kind, self.split, classnames=classes if named else (), templates=templates if named else ()
        )

    def shards(self) -> list[_Pairs]:
        return [self]

    def signature(self) -> str:
        return ""

    def __iter__(self) -> Iterator[Sample]:
        for number, (image, target) in enumerate(_each(self.pairs)):
            ref = ImageRef(f"image {number}", data=self.transform(image))
            if self.kind == "retrieval":
                yield Sample(str(number), ref, texts=tuple(target))
            elif self.kind == "multilabel":
                yield Sample(str(number), ref, labels=tuple(int(i) for i in np.flatnonzero(np.asarray(target))))
            else:
                yield Sample(str(number), ref, label=int(target))


def _each(pairs: Any) -> Iterable[Any]:
    """Go through a dataset that can be iterated, or one with a length and items."""
    return pairs if hasattr(pairs, "__iter__") else (pairs[i] for i in range(len(pairs)))
