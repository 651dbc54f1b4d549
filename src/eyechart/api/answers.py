"""Read fields of an answer, or say what is missing in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from eyechart.api.errors import BadAnswerError
from eyechart.api.text import one_line
from eyechart.api.transport import Json

T = TypeVar("T")


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
