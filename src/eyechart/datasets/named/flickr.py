"""Flickr8k and Flickr30k: a text file with a header and ``image.jpg,caption`` lines, several for each image."""

from __future__ import annotations

from pathlib import Path

from eyechart.datasets.images import ImageFinder
from eyechart.datasets.named.annotations import annotation_file, captions_info
from eyechart.datasets.rows import Problems, RowDataset
from eyechart.io.untrusted import text_lines
from eyechart.types import DatasetSpec, Sample

_BORDER = ".jpg,"


def open_flickr(spec: DatasetSpec) -> RowDataset:
    """Read the captions of a split; images in order of first mention; a caption may hold anything."""
    path = annotation_file(spec)
    problems = Problems(path)
    captions: dict[str, list[str]] = {}
    for number, line in text_lines(path):
        name, border, caption = line.strip().partition(_BORDER)
        if number == 1 or not line.strip():
            continue
        if not border or not caption.strip():
            problems.add(number, "not 'image.jpg,caption'")
            continue
        captions.setdefault(f"{name}.jpg", []).append(caption)
    problems.raise_if_any()
    finder = ImageFinder(Path(spec.root), spec.options.get("source", {}).get("images", ["{image}"]))
    samples = tuple(
        Sample(name, image, texts=tuple(texts)) for name, texts in captions.items() if (image := finder.find(name))
    )
    finder.raise_if_missing(path)
    return RowDataset(captions_info(spec, path), samples)
