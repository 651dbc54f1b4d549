"""XTD, XTD-200, Flickr30k-200: a file of image names, and per language one with the caption of each, line by line."""

from __future__ import annotations

from pathlib import Path

from eyechart.datasets.images import ImageFinder
from eyechart.datasets.named.annotations import annotation_file, captions_info, named_file
from eyechart.datasets.rows import RowDataset
from eyechart.errors import DataError
from eyechart.io.untrusted import read_text, split_lines
from eyechart.types import DatasetSpec, Sample


def open_parallel(spec: DatasetSpec) -> RowDataset:
    """Pair the lines of both files; they must be equally many, and no image may be missing."""
    settings = spec.options.get("source", {})
    names_path = named_file(spec, settings["names"], settings.get("names_url"))
    captions_path = annotation_file(spec)
    names, captions = _lines(names_path), _lines(captions_path)
    if len(names) != len(captions):
        raise DataError(f"{captions_path} has {len(captions)} captions for the {len(names)} images of {names_path}.")
    finder = ImageFinder(Path(spec.root), settings.get("images", ["{image}"]))
    samples = tuple(
        Sample(f"{i}-{name}", image, texts=(caption,))
        for i, (name, caption) in enumerate(zip(names, captions, strict=True))
        if (image := finder.find(name))
    )
    finder.raise_if_missing(names_path)
    return RowDataset(captions_info(spec, captions_path), samples)


def _lines(path: Path) -> list[str]:
    return [line.strip() for line in split_lines(read_text(path))]
