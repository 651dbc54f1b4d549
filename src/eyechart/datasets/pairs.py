"""Pairs of images and how similar they are: ``pairs.jsonl`` with image_1, image_2 and score.

    ROOT/pairs.jsonl    {"image_1": "a.png", "image_2": "b.png", "score": 3.5}

Visual STS (MIEB) is this form with rendered sentences; other keys become metadata.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eyechart.datasets.images import ImageFinder
from eyechart.datasets.layout import check_only_split
from eyechart.datasets.rows import Problems, RowDataset, describe, in_memory, json_objects
from eyechart.errors import DataError
from eyechart.types import DatasetSpec, Sample

FILE = "pairs.jsonl"
IMAGES = ("{image}", "images/{image}")
_OWN_KEYS = {"id", "image_1", "image_2", "score"}


def open_pairs(spec: DatasetSpec) -> RowDataset[Sample]:
    """Read two samples per pair; every bad line is reported with its number."""
    check_only_split(spec, f"{FILE} is not divided: each split needs a folder of its own.")
    path = Path(spec.root) / FILE
    if not path.is_file():
        raise DataError(f"There is no {path}.", advice="Each line of it names two images and a score.")
    finder, problems = ImageFinder(path.parent, IMAGES), Problems(path)
    samples: list[Sample] = []
    for number, row in json_objects(path, problems, spec.options.get("encoding", "")):
        try:
            samples += _pair(number, row, finder)
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            problems.add(number, f"not a pair ({error!r})")
    problems.raise_if_any()
    finder.raise_if_missing(path)
    return in_memory(describe(spec, "similarity", path), samples)


def _pair(number: int, row: Mapping[str, Any], finder: ImageFinder) -> list[Sample]:
    score = float(row["score"])
    if not math.isfinite(score):
        raise ValueError("the score is not a number")
    name = str(row.get("id", number))
    meta = {key: value for key, value in row.items() if key not in _OWN_KEYS} | {"pair": name, "score": score}
    images = [finder.find(str(row[key])) for key in ("image_1", "image_2")]
    return [Sample(f"{name}/{i}", image, meta=meta) for i, image in enumerate(images) if image]
