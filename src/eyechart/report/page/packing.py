"""Values as deflated JSON in base64, which the page unpacks with the browser's own DecompressionStream."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator
from typing import Any

from eyechart.results import to_json

LEVEL = 6
"""Level 9 takes three times as long for a page that is 2 % smaller."""


class PackedValues:
    """A list of values that is held packed: the chunks of a large report are a fiftieth of their size in memory."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def append(self, value: Any) -> None:
        """Pack a value and add it."""
        self.texts.append(pack(value))

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, place: int) -> Any:
        return unpack(self.texts[place])

    def __iter__(self) -> Iterator[Any]:
        return map(unpack, self.texts)


def pack(value: Any) -> str:
    """Write a value as the page reads it."""
    return base64.b64encode(zlib.compress(plain_json(value).encode(), LEVEL)).decode()


def unpack(text: str) -> Any:
    """Read it as the page does: keys are texts then."""
    return json.loads(zlib.decompress(base64.b64decode(text)))


def plain_json(value: Any) -> str:
    """ASCII only, so that half characters in hostile texts cannot break it; NaN becomes null (the slow way, rarely)."""
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":"))
    except ValueError:
        return json.dumps(json.loads(to_json(value)), separators=(",", ":"))
