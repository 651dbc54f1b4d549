"""Small images of the worst mistakes, written into their records, so that a report can show them without the data."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from eyechart.errors import DataError
from eyechart.io.media import ImageRef, to_rgb
from eyechart.results.mistakes import badness, images_of
from eyechart.types import Sample

SIDE = 96
QUALITY = 50
BYTES_EACH = 4_096
"""So much, times the number of images, is the most that they take; most are half as large."""


def with_thumbnails(
    records: Sequence[Mapping[str, Any]], samples: Iterable[Sample], count: int
) -> Sequence[Mapping[str, Any]]:
    """Add a ``thumbnail`` (a data address) to the records of up to ``count`` images of up to `BYTES_EACH` on average.

    The dataset is read once more, up to the last image that is wanted; only those are decoded.
    """
    wanted = set(choose(records, count))
    if not wanted:
        return records
    found: dict[str, str] = {}
    room = count * BYTES_EACH
    for sample in samples:
        if sample.id in wanted:
            wanted.discard(sample.id)
            try:
                image = thumbnail(sample.need_image())
            except DataError:
                continue  # there is none, or it is broken, which is counted where it was to be encoded
            if len(image) <= room:
                found[sample.id] = image
                room -= len(image)
            if not wanted:
                break
    return [
        record | {"thumbnail": found[str(record["id"])]} if str(record.get("id")) in found else record
        for record in map(dict, records)
    ]


def choose(records: Sequence[Mapping[str, Any]], count: int) -> list[str]:
    """List the images of the worst mistakes, and what was found in their place, worst first."""
    chosen: dict[str, None] = {}
    for record in sorted(records, key=badness, reverse=True):
        if len(chosen) >= count or badness(record) <= 0:
            break
        for name in images_of(record):
            if len(chosen) < count:
                chosen[name] = None
    return list(chosen)


def thumbnail(ref: ImageRef) -> str:
    """Decode, shrink and encode an image as a WebP data address of about two kilobytes."""
    image = to_rgb(ref.decode())
    image.thumbnail((SIDE, SIDE))
    stream = io.BytesIO()
    image.save(stream, "WEBP", quality=QUALITY, method=4)
    return "data:image/webp;base64," + base64.b64encode(stream.getvalue()).decode()
