"""What is sent, and what comes back."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from eyechart.api.answers import Json
from eyechart.errors import EyechartError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Request(Generic[T]):
    """One call: what to send where, and how to read the answer.

    `body` may be a function: it is called in a thread just before sending, so that ten thousand images
    are not encoded (or in memory) at once. Without a body it is a GET.

    `keep` is called in a thread with what `parse` made of the answer, before another request is sent in its
    place: what was paid for can be put on disk first.
    """

    id: str
    path: str
    body: Mapping[str, Any] | Callable[[], Mapping[str, Any]] | None
    parse: Callable[[Json], T]
    keep: Callable[[T], None] | None = None


@dataclass(frozen=True, slots=True)
class Reply(Generic[T]):
    """What became of a request: a value, or the error that ended it."""

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
class UnderWay(Generic[T]):
    """A request that was taken and has no reply yet."""

    request: Request[T]
    start: float
    content: bytes | None = None
    model: str = ""
    """The body's, which explains a 404."""
    broken: EyechartError | None = None
    """Why there is no body."""
    tries: int = 0
    """How often it was sent."""
    following: UnderWay[T] | None = None
    """The next request, made while this one's answer was kept."""
    failures: int = 0
    refusals: int = 0
    """How often it was one too many for the server."""

    def encode(self) -> None:
        """Make the body and serialise it."""
        body = self.request.body
        try:
            built = body() if callable(body) else body
        except EyechartError as error:
            self.broken = error
            return
        if built is not None:
            self.content = json.dumps(built, allow_nan=False, separators=(",", ":")).encode()
            self.model = str(built.get("model", ""))

    def reply(self, value: T | None, error: EyechartError | None = None) -> Reply[T]:
        """Make the reply."""
        return Reply(self.request.id, value, error, self.tries, time.monotonic() - self.start)
