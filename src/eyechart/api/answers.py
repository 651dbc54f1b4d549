"""Read fields of an answer, or say what is missing in it; foreign text made safe to keep and to print."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from eyechart.api.errors import BadAnswerError

T = TypeVar("T")
Json = dict[str, Any]


def field_of(holder: Mapping[str, Any], name: str, kind: type[T], what: str, body: Json) -> T:
    """Return a field of the expected type; `what` names the sort of answer, `body` is quoted in the error."""
    value = holder.get(name)
    if not isinstance(value, kind):
        raise BadAnswerError(f"The answer is no {what}: {name!r} is missing or of another kind in {excerpt(body)}")
    return value


def list_of(body: Json, name: str, what: str) -> list[Any]:
    """Return a top-level list."""
    return field_of(body, name, list, what, body)


def excerpt(body: Json) -> str:
    """Quote the beginning of an answer."""
    return one_line(json.dumps(body), 200)


def whole(text: str) -> str:
    """Replace surrogates that have lost their pair: JSON allows them, UTF-8 files do not."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def one_line(text: str, limit: int) -> str:
    """Cut a text for a message: one line, no control characters (they can drive a terminal), at most `limit` long."""
    text = " ".join("".join(c if c.isprintable() else " " for c in text[:100_000]).split())
    return text if len(text) <= limit else f"{text[:limit]}..."
