"""Images with captions to choose from: SugarCrepe, Winoground, WinoGAViL. The right candidate always comes first."""

from __future__ import annotations

from pathlib import Path

from eyechart.datasets.images import ImageFinder, finder_of
from eyechart.datasets.layout import existing, own_split, source_of
from eyechart.datasets.named.annotations import named_file
from eyechart.datasets.rows import RowDataset, describe, in_memory, read_csv
from eyechart.datasets.selection import Found, Row, question_dataset
from eyechart.datasets.unpacked import unpacked
from eyechart.errors import DataError
from eyechart.io.untrusted import json_lines, parse_json, read_json, text_of
from eyechart.types import DatasetSpec, Sample

EXAMPLES = ["examples.jsonl", "data/examples.jsonl"]
WINOGROUND_IMAGES = ["images", "data/images"]
"""Folders, or archives of that name: that is how the hub has them."""
TAGS = ("tag", "secondary_tag", "collapsed_tag", "num_main_preds")
"""Winoground's own columns that make groups."""
_VOWELS = "aeiou"


def open_sugar_crepe(spec: DatasetSpec) -> RowDataset[Sample]:
    """Read one of the seven files: an image, its caption and a wrong one."""
    own_split(spec)
    path, finder = _named(spec)
    try:
        rows = [
            (str(key), str(row["filename"]), (text_of(row["caption"]), text_of(row["negative_caption"])))
            for key, row in read_json(path).items()
        ]
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path} is not in SugarCrepe's format ({error!r}).") from error
    samples = [Sample(key, finder.find(name), texts=texts) for key, name, texts in rows]
    finder.raise_if_missing(path)
    return in_memory(describe(spec, "selection", path), samples)


def _named(spec: DatasetSpec) -> tuple[Path, ImageFinder]:
    """Return the one annotation file of a benchmark, and where its images are."""
    settings = source_of(spec)
    return named_file(spec, [settings["file"]], settings.get("url")), finder_of(spec)


def open_winoground(spec: DatasetSpec) -> RowDataset[Sample]:
    """Read two images and two captions per example; the tags become metadata."""
    own_split(spec)
    path = existing(spec, EXAMPLES)
    root = Path(spec.root)
    archive = next((file for name in WINOGROUND_IMAGES if (file := root / f"{name}.zip").is_file()), None)
    if archive and not any((root / name).is_dir() for name in WINOGROUND_IMAGES):
        root = unpacked(archive)
    finder = ImageFinder(root, [*(f"{name}/{{image}}" for name in WINOGROUND_IMAGES), "{image}"])
    return question_dataset(spec, path, json_lines(path), _winoground_question, finder)


def _winoground_question(number: int, row: Row, finder: ImageFinder) -> Found:  # noqa: ARG001 - one signature
    refs = [finder.find(_png(row[key])) for key in ("image_0", "image_1")]
    texts = [text_of(row[key]) for key in ("caption_0", "caption_1")]
    tags = {key: row[key] for key in TAGS if key in row}
    return str(row["id"]), refs, texts, [(0, 0), (1, 1)], tags


def _png(name: str) -> str:
    return name if "." in name else f"{name}.png"


def open_winogavil(spec: DatasetSpec) -> RowDataset[Sample]:
    """Read a cue and its candidate images, several of which belong to it."""
    path, finder = _named(spec)
    rows = enumerate(row for _, row in read_csv(path)[1])
    return question_dataset(spec, path, rows, _winogavil_question, finder)


def _winogavil_question(number: int, row: Row, finder: ImageFinder) -> Found:
    names = [str(name) for name in parse_json(row["candidates"])]
    right = {str(name) for name in parse_json(row["associations"])}
    if not right <= set(names):
        raise DataError("an association is no candidate")
    refs = [finder.find(f"{name}.jpg") for name in names]
    pairs = [(i, 0) for i, name in enumerate(names) if name in right]
    return str(number), refs, [cue_prompt(text_of(row["cue"]))], pairs, {"candidates": len(names)}


def cue_prompt(cue: str) -> str:
    """Write a cue as DataComp does: lower case, with an article."""
    text = cue.lower()
    return f"{'An' if text[:1] in _VOWELS else 'A'} {text}"
