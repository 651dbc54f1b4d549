"""What a dataset's signature is made of: everything that can change a number, by content and not by name or size."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from eyechart.errors import DataError
from eyechart.io.media import ImageRef
from eyechart.types import DatasetInfo, Sample

UNREADABLE = "unreadable"
"""Stands for an image without content; reading the dataset will say what is wrong with it, or count it."""


def digest_info(info: DatasetInfo) -> str:
    """Digest what a description says of the samples: class names, prompts, queries and documents."""
    prompts = sorted(info.class_prompts.items())
    return _digest([(info.kind, info.classnames, info.templates, prompts, repr(info.collection))])


def digest_samples(samples: Iterable[Sample]) -> str:
    """Digest samples with the content of their images; files that look untouched are not read again."""
    return _digest(
        (sample.id, _content(sample.image), sample.label, sample.labels, sample.texts, dict(sample.meta))
        for sample in samples
    )


def _content(image: ImageRef | None) -> str:
    try:
        return image.digest().hex() if image else ""
    except DataError:
        return UNREADABLE


def _digest(rows: Iterable[object]) -> str:
    state = hashlib.blake2b(digest_size=16)
    for row in rows:
        state.update(json.dumps(row, sort_keys=True, default=str).encode("ascii") + b"\n")
    return state.hexdigest()
