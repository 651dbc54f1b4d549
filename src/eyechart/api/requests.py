"""Requests and replies, and the fields of a reply."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from eyechart.api.errors import BadAnswerError, RequestRefusedError
from eyechart.errors import EyechartError

T = TypeVar("T")
Json = dict[str, Any]


def list_of(body: Json, name: str, what: str) -> list[Any]:
    """Return a top-level list; `what` names the kind of response."""
    value = body.get(name)
    if not isinstance(value, list):
        raise not_a(what, name, body)
    return value


def not_a(what: str, name: str, body: Json) -> BadAnswerError:
    """Return the error for a response without a required field."""
    return BadAnswerError(
        "The response is not a {what}: {name!r} is missing or has the wrong type in {body}",
        what=what,
        name=name,
        body=excerpt(body),
    )


def excerpt(body: Json) -> str:
    """Quote the beginning of a response."""
    return one_line(json.dumps(body), 200)


def whole(text: str) -> str:
    """Replace lone surrogates, which JSON allows and UTF-8 does not."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def one_line(text: str, limit: int) -> str:
    """Shorten a text for a message: one line, at most `limit` characters, no control characters."""
    text = " ".join("".join(c if c.isprintable() else " " for c in text[:100_000]).split())
    return text if len(text) <= limit else f"{text[:limit]}..."


@dataclass(frozen=True, slots=True)
class Request(Generic[T]):
    """One API call: path, body and response parser.

    `body` may be a function: it is called in a thread just before sending, so that images are encoded one at a time.
    Without a body it is a GET.

    `keep` is called in a thread with the parsed value before the slot is reused, so that a paid response is on disk
    first.
    """

    id: str
    path: str
    body: Mapping[str, Any] | Callable[[], Mapping[str, Any]] | None
    parse: Callable[[Json], T]
    keep: Callable[[T], None] | None = None
    amend: Callable[[RequestRefusedError], bool] | None = None
    """Called when the server rejects the request; True if `body` now builds another one, which is sent instead."""
    timed: Callable[[T, float, int], T] | None = None
    """Adds to the parsed value the seconds that the answered request took and the number of failed ones before it."""


@dataclass(frozen=True, slots=True)
class Reply(Generic[T]):
    """Outcome of a request: a value, or the error that ended it."""

    id: str
    value: T | None
    error: EyechartError | None
    tries: int
    seconds: float

    def result(self) -> T:
        """Return the value, or raise the error."""
        if self.error is not None:
            raise self.error
        return self.value  # type: ignore[return-value]  # without an error it is the parsed T


@dataclass(slots=True)
class InFlightRequest(Generic[T]):
    """A request without a reply yet."""

    request: Request[T]
    start: float
    content: bytes | None = None
    model: str = ""
    """The model named in the body, which explains a 404."""
    broken: EyechartError | None = None
    """Error raised while building the body."""
    tries: int = 0
    following: InFlightRequest[T] | None = None
    """The next request, prepared while the value of this one was stored."""
    failures: int = 0
    refusals: int = 0
    """How often the server had no capacity for it."""

    def reply(self, value: T | None, error: EyechartError | None = None) -> Reply[T]:
        """Make the reply."""
        return Reply(self.request.id, value, error, self.tries, time.monotonic() - self.start)
