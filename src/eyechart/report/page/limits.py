"""How much goes into the page, and how texts, numbers and images are made fit for it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

MAX_TEXT = 20_000
"""Characters of one text that are kept."""
MAX_THUMBNAIL = 32_768
_THUMBNAIL = re.compile(r"data:image/(?:jpeg|png|webp|gif);base64,[A-Za-z0-9+/]+={0,2}")


@dataclass
class Limits:
    """How much of the samples goes into the page; what is for all benchmarks is used up as they are made."""

    samples: int = 50_000
    """Samples listed for each benchmark."""
    questions: int = 3_000
    """Samples of each benchmark whose questions and answers are listed."""
    images: int = 200
    """Thumbnails for each benchmark; 0 for none."""
    image_bytes: int = 9_000_000
    """Thumbnails in all."""
    text_bytes: int = 24_000_000
    """Questions, answers and captions in all, before they are packed."""


def is_thumbnail(value: object) -> bool:
    """Accept only a small image that is written out in the record: never an address, never another type."""
    return isinstance(value, str) and len(value) <= MAX_THUMBNAIL and _THUMBNAIL.fullmatch(value) is not None


def cut(value: Any, most: int = MAX_TEXT) -> Any:
    """Shorten texts, also inside lists and mappings, and say how much is missing."""
    if isinstance(value, str):
        return value if len(value) <= most else f"{value[:most]} … ({len(value) - most} more characters)"
    if isinstance(value, Mapping):
        return {str(key): cut(item, most) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [cut(item, most) for item in value]
    return value


def short(value: float | None, digits: int = 5) -> float | None:
    """Round a number for the page; what is none becomes null."""
    return None if value is None or not math.isfinite(value) else round(float(value), digits)


def rounded(values: Iterable[float | None]) -> list[float | None]:
    """Round many."""
    return [short(value, 4) for value in values]
