"""Flow control of requests: retries, adaptive concurrency, and when repeated failures end a run."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import random
import re
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple, TypeVar

from eyechart.api.errors import ApiError, FatalApiError, RequestRefusedError
from eyechart.api.requests import Reply
from eyechart.messages import UserMessage

RETRIED_STATUSES = frozenset({408, 409, 425, 429})
"""Retried in addition to every 5xx."""
BUSY_STATUSES = frozenset({429, 529})
"""The server is overloaded, regardless of the request."""
_NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]*)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Retry:
    """Exponential backoff with jitter: waits between half and all of first, 2 x first, 4 x first ... up to longest."""

    tries: int = 6
    first_wait: float = 0.5
    longest_wait: float = 30.0
    longest_retry_after: float = 300.0
    """A longer Retry-After than this is an error."""

    @property
    def refusals(self) -> int:
        """How often a server may refuse all requests in a row before the run ends.

        More often than a single request is retried: limits per minute last a minute.
        """
        return 2 * self.tries - 1

    def wait(self, failures: int) -> float:
        """Seconds to wait after this many failures in a row."""
        full = min(self.longest_wait, self.first_wait * 2.0 ** min(failures - 1, 32))
        return full * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, guards nothing

    def after(self, failure: TransientError, failures: int) -> float:
        """Seconds to wait after a failure: the server's Retry-After if it sent one; an ApiError if too long."""
        if failure.retry_after is None:
            return self.wait(failures)
        if failure.retry_after > self.longest_retry_after:
            error = failure.error
            raise type(error)(
                "{reason} (Retry-After: {retry_after:.0f} s)",
                advice="Rerun later.",
                reason=error.message,
                retry_after=failure.retry_after,
            )
        # Jitter on top of the requested time, so that waiting requests do not return all at once.
        return failure.retry_after + min(self.wait(failures), self.first_wait)


class TransientError(Exception):
    """Internal: a failure to retry, with the error to raise when no attempt is left."""

    def __init__(self, error: ApiError, retry_after: float | None = None) -> None:
        super().__init__(str(error))
        self.error = error
        self.retry_after = retry_after

    def last(self, tries: int, *, fatal: bool = False) -> ApiError:
        """Return the error to raise when no attempt is left; a fatal one ends the run."""
        words = self.error.message
        if tries > 1:
            words = UserMessage("{reason} (after {tries} attempts)", reason=words, tries=tries)
        error = type(self.error)(words, advice=self.error.advice)
        error.fatal = fatal or error.fatal
        return error


class BusyError(TransientError):
    """Internal: the server had no capacity for the request; others may be answered meanwhile."""


def is_retried(status: int) -> bool:
    """Whether a request with this HTTP status is retried."""
    return status in RETRIED_STATUSES or 500 <= status <= 599


def read_retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds that a server asks to wait; None if it does not.

    ``retry-after-ms`` is OpenAI's and Azure's; ``Retry-After`` is a number (an integer by RFC 9110, but fractions
    occur) or a date.
    """
    for name, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        text = (headers.get(name) or "").strip()
        if _NUMBER.fullmatch(text):
            return float(text) / unit
    try:
        moment = parsedate_to_datetime(headers.get("retry-after") or "").timestamp()
    except (ValueError, OverflowError):
        return None
    return max(0.0, moment - (time.time() if now is None else now))


# Adaptive concurrency, the guard against repeated failures, and the thread that runs the event loop.
#
# A server that handles eight requests at a time and answers 429 beyond must not be sent thirty-two again and again. A
# run starts with few, adds one per response until the first refusal, and then stays at what was being served at that
# moment. It probes for one more with exponential backoff: each refused probe doubles the wait.


T = TypeVar("T")
Emit = Callable[[T], Awaitable[None]]

START = 8
"""Initial concurrency, before anything is known of a server."""
MOST_PATIENT = 64
"""Upper bound of the rounds of responses before the limit is raised by one."""
MANY = 20
_NUMBERED = re.compile(r"[\w-]*\d[\w-]*")
"""Numbers, and request ids."""


@dataclass
class AdaptiveLimit:
    """Concurrency limit learnt for one server; it outlives a run, so the next one starts from it."""

    most: int
    now: int = field(init=False)
    refusals: int = field(default=0, init=False)
    """Refusals since the last response; those of requests in flight together count as one."""
    round: int = field(default=0, init=False)
    """How often the server was found at capacity."""
    _answers: int = field(default=0, init=False)
    _patience: int = field(default=1, init=False)
    _grew: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.now = min(self.most, START)

    def answered(self) -> None:
        """Update the limit after a response."""
        self.refusals = 0
        self._answers += 1
        enough = self.now * self._patience if self.round else 1
        if self._answers >= enough and self.now < self.most:
            self.now += 1
            self._answers = 0
            if self._grew:  # two increases in a row succeeded: capacity has grown
                self._patience = max(1, self._patience // 2)
            self._grew = True

    def refused(self, sent_in: int, serving: int) -> None:
        """Update the limit after a refusal: the round of the request, and how many others are being served."""
        self.now = max(1, serving)
        self._answers, self._grew = 0, False
        if sent_in == self.round:
            self.round += 1
            self.refusals += 1
            self._patience = min(2 * self._patience, MOST_PATIENT)


class AdaptiveLimiter:
    """Gate that admits as many concurrent requests of one run as the limit allows."""

    def __init__(self, limit: AdaptiveLimit) -> None:
        self.limit = limit
        self.in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._held = 0
        self._open = False

    async def enter(self, *, first: bool = False) -> int:
        """Wait for a slot, ahead of all others if ``first``; return the current round."""
        while not self._open and (self._held or self.in_flight >= self.limit.now):
            turn = asyncio.get_running_loop().create_future()
            (self._waiting.appendleft if first else self._waiting.append)(turn)
            await turn
        self.in_flight += 1
        return self.limit.round

    def answered(self) -> None:
        """Free the slot of a request that was answered."""
        self.limit.answered()
        self.failed()

    def failed(self) -> None:
        """Free the slot of a request that ended without a response, for any reason but overload."""
        self.in_flight -= 1
        self._wake()

    def refused(self, sent_in: int) -> None:
        """Free the slot of a request that the server had no capacity for."""
        self.limit.refused(sent_in, self.in_flight - 1)
        self.failed()

    def _wake(self) -> None:
        room = len(self._waiting) if self._open else 0 if self._held else self.limit.now - self.in_flight
        while room > 0 and self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                room -= 1

    def open(self) -> None:
        """Admit everything: the run ends, and waiting workers must notice."""
        self._open = True
        self._wake()

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        """Admit nothing while the block runs."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1
            self._wake()


class RepeatedFailureError(FatalApiError):
    """Many consecutive requests failed in the same way; the run stops before paying for all of them."""


class RepeatedFailureGuard:
    """Stops a run in which many consecutive requests fail in the same way.

    Requests that the server rejects for their content (an image too small, a text too long) count only until the first
    response: twenty such images in a row do not mean that the server is unusable.
    """

    def __init__(self) -> None:
        self._count = 0
        self._last = ""
        self._answered = False

    def see(self, reply: Reply[Any] | None) -> None:
        """Count a reply; too many in a row with the same error raise RepeatedFailureError."""
        error = None if reply is None else reply.error
        if reply is not None and error is None:
            self._answered, self._count = True, 0
        if not isinstance(error, ApiError) or (self._answered and isinstance(error, RequestRefusedError)):
            return
        words = _NUMBERED.sub("#", error.message)
        self._count = self._count + 1 if words == self._last else 1
        self._last = words
        if self._count >= MANY:
            raise RepeatedFailureError(
                "{many} consecutive requests failed with the same error: {reason}",
                advice=error.advice or "Fix the cause that the server reports; answers received so far are kept.",
                many=MANY,
                reason=error.message,
            )


class _End(NamedTuple):
    error: BaseException | None


def pump(produce: Callable[[Emit[T]], Coroutine[Any, Any, None]], room: int) -> Iterator[T]:
    """Run `produce` in the event loop of a separate thread and yield what it emits.

    The producer runs up to `room` items ahead of the consumer. Its exception is raised after everything that it emitted
    before. Leaving the generator early cancels it. The thread is needed because the caller may be inside an event loop,
    as in a notebook.
    """
    items: queue.Queue[T | _End] = queue.Queue(maxsize=room)

    async def emit(item: T) -> None:
        try:
            items.put_nowait(item)
        except queue.Full:
            await asyncio.to_thread(items.put, item)

    def run() -> None:
        failure: BaseException | None = None
        try:
            with runner:
                loop.run_until_complete(task)
        except asyncio.CancelledError:
            pass
        except BaseException as error:  # noqa: BLE001 - raised again in the consumer's thread
            failure = error
        items.put(_End(failure))

    runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
    loop = runner.get_loop()
    task = loop.create_task(produce(emit))
    thread = threading.Thread(target=run, name="eyechart-api", daemon=True)
    thread.start()
    try:
        while not isinstance(item := items.get(), _End):
            yield item
        if item.error is not None:
            raise item.error
    finally:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nothing is left to cancel
            loop.call_soon_threadsafe(task.cancel)
        while thread.is_alive():
            with contextlib.suppress(queue.Empty):
                while True:  # a producer that is blocked on a full queue must get room before it can end
                    items.get_nowait()
            thread.join(timeout=0.02)
