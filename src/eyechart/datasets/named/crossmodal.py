"""Crossmodal-3600: one JSON object a line with the captions of an image in 36 languages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from eyechart.datasets.images import ImageFinder
from eyechart.datasets.layout import first_existing, own_split
from eyechart.datasets.named.annotations import captions_info
from eyechart.datasets.rows import Problems, RowDataset
from eyechart.errors import DataError
from eyechart.io.untrusted import parse_json, text_lines
from eyechart.types import DatasetSpec, Sample

FILES = ["captions.jsonl", "xm3600/captions.jsonl"]


def open_crossmodal(spec: DatasetSpec) -> RowDataset:
    """Read the first caption of each image in one language, as CLIP_benchmark does."""
    own_split(spec)
    path = first_existing(Path(spec.root), FILES)
    if path is None:
        raise DataError(f"{spec.root} has no {FILES[0]}.", advice="See `eyechart info crossmodal3600`.")
    language = str(spec.options.get("language", spec.language))
    finder = ImageFinder(Path(spec.root), spec.options.get("source", {}).get("images", ["images/{image}"]))
    problems = Problems(path)
    samples = []
    for number, line in text_lines(path):
        key, caption = _row(line, language)
        if not caption:
            problems.add(number, f"no caption in {language!r}")
            continue
        image = finder.find(f"{key}.jpg")
        if image:
            samples.append(Sample(key, image, texts=(caption,)))
    problems.raise_if_any()
    finder.raise_if_missing(path)
    return RowDataset(captions_info(spec, path), tuple(samples))


def _row(line: str, language: str) -> tuple[str, str]:
    try:
        row: dict[str, Any] = parse_json(line)
        return str(row["image/key"]), str(row[language]["caption"][0])
    except (ValueError, KeyError, TypeError, IndexError):
        return "", ""
