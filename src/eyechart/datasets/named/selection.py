"""Images with captions to choose from: SugarCrepe, Winoground, WinoGAViL. The right candidate always comes first."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from eyechart.datasets.images import ImageFinder
from eyechart.datasets.layout import first_existing, own_split
from eyechart.datasets.named.annotations import named_file
from eyechart.datasets.rows import RowDataset
from eyechart.datasets.selection import question_samples
from eyechart.errors import DataError
from eyechart.io.names import shown
from eyechart.io.untrusted import json_lines, parse_json, read_json, text_lines
from eyechart.types import DatasetInfo, DatasetSpec, Sample

EXAMPLES = ["examples.jsonl", "data/examples.jsonl"]
WINOGROUND_IMAGES = ["images/{image}", "data/images/{image}"]
TAGS = ("tag", "secondary_tag", "collapsed_tag", "num_main_preds")
"""Winoground's own columns that make groups."""
_VOWELS = "aeiou"


def open_sugar_crepe(spec: DatasetSpec) -> RowDataset:
    """Read one of the seven files: an image, its caption and a wrong one."""
    own_split(spec)
    settings = spec.options["source"]
    path = named_file(spec, [settings["file"]], settings.get("url"))
    finder = ImageFinder(Path(spec.root), settings["images"])
    try:
        rows = [
            (str(key), str(row["filename"]), (str(row["caption"]), str(row["negative_caption"])))
            for key, row in read_json(path).items()
        ]
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path} is not in SugarCrepe's format ({error!r}).") from error
    samples = tuple(Sample(key, ref, texts=texts) for key, name, texts in rows if (ref := finder.find(name)))
    finder.raise_if_missing(path)
    return _dataset(spec, path, samples)


def open_winoground(spec: DatasetSpec) -> RowDataset:
    """Read two images and two captions per example; the tags become metadata."""
    own_split(spec)
    root = Path(spec.root)
    path = first_existing(root, EXAMPLES)
    if path is None:
        raise DataError(f"{root} has no {EXAMPLES[0]}.", advice="See `eyechart info winoground`.")
    finder = ImageFinder(root, WINOGROUND_IMAGES)
    samples: list[Sample] = []
    for name, images, captions, tags in _winoground_rows(path):
        refs = [ref for image in images if (ref := finder.find(image))]
        if len(refs) == len(images):
            samples += question_samples(name, refs, captions, [(0, 0), (1, 1)], tags)
    finder.raise_if_missing(path)
    return _dataset(spec, path, tuple(samples))


def _winoground_rows(path: Path) -> Iterator[tuple[str, tuple[str, str], tuple[str, str], dict[str, Any]]]:
    for number, row in json_lines(path):
        try:
            images = (_png(row["image_0"]), _png(row["image_1"]))
            tags = {key: row[key] for key in TAGS if key in row}
            yield str(row["id"]), images, (str(row["caption_0"]), str(row["caption_1"])), tags
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path}, line {number}: not an example of Winoground ({error!r}).") from error


def _png(name: str) -> str:
    return name if "." in name else f"{name}.png"


def open_winogavil(spec: DatasetSpec) -> RowDataset:
    """Read a cue and its candidate images, several of which belong to it."""
    settings = spec.options["source"]
    path = named_file(spec, [settings["file"]], settings.get("url"))
    finder = ImageFinder(Path(spec.root), settings["images"])
    samples: list[Sample] = []
    for number, row in enumerate(csv.DictReader(line for _, line in text_lines(path))):
        try:
            candidates = [str(name) for name in parse_json(row["candidates"])]
            right = {str(name) for name in parse_json(row["associations"])}
            cue = str(row["cue"])
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{path}, row {number + 1}: not a row of WinoGAViL ({error!r}).") from error
        refs = [ref for name in candidates if (ref := finder.find(f"{name}.jpg"))]
        if len(refs) == len(candidates):
            pairs = [(i, 0) for i, name in enumerate(candidates) if name in right]
            meta = {"candidates": len(candidates)}
            samples += question_samples(str(number), refs, [cue_prompt(cue)], pairs, meta)
    finder.raise_if_missing(path)
    return _dataset(spec, path, tuple(samples))


def cue_prompt(cue: str) -> str:
    """Write a cue as DataComp does: lower case, with an article."""
    text = cue.lower()
    return f"{'An' if text[:1] in _VOWELS else 'A'} {text}"


def _dataset(spec: DatasetSpec, path: Path, samples: tuple[Sample, ...]) -> RowDataset:
    return RowDataset(DatasetInfo(spec.name, "selection", spec.split, spec.language, source=shown(path)), samples)
