"""Pictures with captions to choose from: SugarCrepe, Winoground, WinoGAViL. The right candidate always comes first."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from eyechart.datasets.layout import first_existing, own_split
from eyechart.datasets.named.annotations import named_file, read_json
from eyechart.datasets.pictures import PictureFinder
from eyechart.datasets.rows import RowDataset
from eyechart.errors import DataError
from eyechart.types import DatasetInfo, DatasetSpec, Sample

EXAMPLES = ["examples.jsonl", "data/examples.jsonl"]
WINOGROUND_IMAGES = ["images/{image}", "data/images/{image}"]
_VOWELS = "aeiou"


def open_sugar_crepe(spec: DatasetSpec) -> RowDataset:
    """Read one of the seven files: a picture, its caption and a wrong one."""
    own_split(spec)
    settings = spec.options["source"]
    path = named_file(spec, [settings["file"]], settings.get("url"))
    finder = PictureFinder(Path(spec.root), settings["images"])
    try:
        rows = [
            (str(key), str(row["filename"]), (str(row["caption"]), str(row["negative_caption"])))
            for key, row in read_json(path).items()
        ]
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path} is not in SugarCrepe's format ({error!r}).") from error
    samples = tuple(Sample(key, picture, texts=texts) for key, name, texts in rows if (picture := finder.find(name)))
    finder.raise_if_missing(path)
    return _dataset(spec, path, samples)


def open_winoground(spec: DatasetSpec) -> RowDataset:
    """Read two samples per example, one for each picture; ``meta["pair"]`` joins them."""
    own_split(spec)
    root = Path(spec.root)
    path = first_existing(root, EXAMPLES)
    if path is None:
        raise DataError(f"{root} has no {EXAMPLES[0]}.", advice="See `eyechart info winoground`.")
    finder = PictureFinder(root, WINOGROUND_IMAGES)
    samples = []
    for pair, images, captions in _winoground_rows(path):
        for i in (0, 1):
            picture = finder.find(images[i])
            if picture:
                texts = (captions[i], captions[1 - i])
                samples.append(Sample(f"{pair}/{i}", picture, texts=texts, meta={"pair": pair}))
    finder.raise_if_missing(path)
    return _dataset(spec, path, tuple(samples))


def _winoground_rows(path: Path) -> Iterator[tuple[str, tuple[str, str], tuple[str, str]]]:
    with path.open(encoding="utf-8") as stream:
        for number, line in enumerate(stream, 1):
            if not line.strip():
                continue
            try:
                row: dict[str, Any] = json.loads(line)
                images = (_png(row["image_0"]), _png(row["image_1"]))
                yield str(row["id"]), images, (str(row["caption_0"]), str(row["caption_1"]))
            except (ValueError, KeyError, TypeError) as error:
                raise DataError(f"{path}, line {number}: not an example of Winoground ({error!r}).") from error


def _png(name: str) -> str:
    return name if "." in name else f"{name}.png"


def open_winogavil(spec: DatasetSpec) -> RowDataset:
    """Read one sample per candidate picture; ``meta`` tells the instance and whether the picture belongs to the cue."""
    settings = spec.options["source"]
    path = named_file(spec, [settings["file"]], settings.get("url"))
    finder = PictureFinder(Path(spec.root), settings["images"])
    samples = []
    with path.open(encoding="utf-8", newline="") as stream:
        for number, row in enumerate(csv.DictReader(stream)):
            try:
                candidates = [str(name) for name in json.loads(row["candidates"])]
                right = {str(name) for name in json.loads(row["associations"])}
                cue = str(row["cue"])
            except (KeyError, TypeError, ValueError) as error:
                raise DataError(f"{path}, row {number + 1}: not a row of WinoGAViL ({error!r}).") from error
            for i, name in enumerate(candidates):
                picture = finder.find(f"{name}.jpg")
                if picture:
                    meta = {"instance": str(number), "associated": name in right, "candidates": len(candidates)}
                    samples.append(Sample(f"{number}/{i}", picture, texts=(cue_prompt(cue),), meta=meta))
    finder.raise_if_missing(path)
    return _dataset(spec, path, tuple(samples))


def cue_prompt(cue: str) -> str:
    """Write a cue as DataComp does: lower case, with an article."""
    text = cue.lower()
    return f"{'An' if text[:1] in _VOWELS else 'A'} {text}"


def _dataset(spec: DatasetSpec, path: Path, samples: tuple[Sample, ...]) -> RowDataset:
    return RowDataset(DatasetInfo(spec.name, "selection", spec.split, spec.language, source=str(path)), samples)
