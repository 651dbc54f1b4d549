"""How bad a mistake is, and which images show it: confident ones come first, whoever shows some of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from eyechart.types import RecordForm

Record = Mapping[str, Any]


def _label(record: Record) -> float:
    """How far the wrong class is ahead; where there are no scores, how far behind the right one is."""
    if record["rank"] == 1:
        return 0.0
    scores = record.get("scores") or [0.0]
    return 1e-9 * float(record["rank"]) + max(0.0, float(scores[0]) - float(record.get("label_score") or 0.0))


def _labels(record: Record) -> float:
    scores = record["scores"]
    right = [scores[i] for i in record["labels"]]
    return max(0.0, max(scores) - min(right)) if right else 0.0


def _ranking(record: Record) -> float:
    rank = record["rank"]
    return float(rank - 1) if rank is not None else math.inf


def _question(record: Record) -> float:
    correct = record.get("correct")
    return 1.0 - correct if isinstance(correct, int | float) else 0.0


BADNESS: Mapping[RecordForm, Callable[[Record], float]] = {"label": _label, "labels": _labels, "ranking": _ranking}
"""By form of the records, 0 for what is right. Questions are not ordered."""


def badness(record: Record) -> float:
    """Tell how bad a record is by what it holds."""
    if "rank" in record:
        return _label(record) if "label" in record else _ranking(record)
    return _labels(record) if "labels" in record and record.get("scores") else _question(record)


def images_of(record: Record) -> Iterator[str]:
    """Name the image of a record; for a caption, its image and those that were found before it."""
    yield str(record.get("image", record["id"]))
    if record.get("query") == "text":
        yield from map(str, record.get("top") or ())
