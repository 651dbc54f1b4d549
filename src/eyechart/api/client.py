"""The one HTTP client for OpenAI-compatible servers."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from eyechart.api.budget import Budget, read_usage
from eyechart.api.errors import ApiError, EndpointMissingError, ModelNotServedError
from eyechart.api.pump import Emit, pump
from eyechart.api.retry import Retry, TransientError
from eyechart.api.secret import Secret, find_key
from eyechart.api.text import one_line
from eyechart.api.transport import Json, Transport, check_api_base
from eyechart.errors import EyechartError, nearest

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")

MAX_RESPONSE_BYTES = 128 * 1024 * 1024
_CHECK_SECONDS = 15.0


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


class ApiClient:
    """Sends requests to one server with bounded concurrency, timeouts, retries, a budget and a hidden key.

    It holds no connection between calls: there is nothing to close. `budget.used` counts what was sent.
    """

    def __init__(
        self,
        api_base: str,
        api_key: Secret | str | None = None,
        *,
        api_key_variable: str | None = None,
        concurrency: int = 8,
        timeout: float = 120.0,
        retry: Retry | None = None,
        budget: Budget | None = None,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
    ) -> None:
        if concurrency < 1 or timeout <= 0:
            raise ValueError(f"need concurrency >= 1 and timeout > 0, not {concurrency} and {timeout}")
        self.api_base = check_api_base(api_base)
        self.concurrency = concurrency
        self.retry = retry or Retry()
        self.budget = budget or Budget()
        self._transport = Transport(self.api_base, find_key(api_key, api_key_variable), timeout, max_response_bytes)

    def __repr__(self) -> str:
        return f"ApiClient({self.api_base!r}, concurrency={self.concurrency})"

    def map(self, requests: Iterable[Request[T]]) -> Iterator[Reply[T]]:
        """Send all requests, at most `concurrency` at a time, and yield the replies as they arrive.

        Replies come in the order of completion and carry the ids of their requests. `requests` is read only
        as fast as answers come. A request that fails for good yields a reply with its error, unless the
        error is fatal (wrong key, unknown model, server down, budget spent): then nothing new is sent, what
        is in flight still arrives, and the error is raised at the end. Leaving the loop early cancels what
        is in flight.
        """

        async def produce(emit: Emit[Reply[T]]) -> None:
            run = _Run(self, iter(requests), emit)
            async with self._transport.session(self.concurrency) as session:
                await run.all(session)

        return pump(produce, room=self.concurrency)

    def call(self, request: Request[T]) -> T:
        """Send one request and return its value, or raise its error."""
        [reply] = self._alone().map([request])
        return reply.result()

    def check(self, model: str | None = None) -> tuple[str, ...]:
        """See whether the server is there, takes the key and serves the model, before anything is paid.

        Asks GET {api_base}/models and returns the names; none when the server has no such list, in which
        case only the connection and the key are known to be good.
        """
        quick = self._alone(timeout=min(_CHECK_SECONDS, self._transport.timeout))
        try:
            names = quick.call(Request("models", "models", None, _model_names))
        except EndpointMissingError:
            return ()
        if model is not None and names and model not in names and "*" not in names:
            near = nearest(model, names)
            raise ModelNotServedError(
                f"{self.api_base} does not serve the model {model!r} (it serves: {_shortlist(names)}).",
                advice=f"Did you mean {' or '.join(near)}?" if near else "Give one of these names.",
            )
        return names

    async def send(self, session: httpx2.AsyncClient, request: Request[T]) -> Reply[T]:
        """Send one request, with retries, and parse its answer; a fatal error is raised."""
        start, tries = time.monotonic(), 0
        try:
            content, model = await asyncio.to_thread(_encode, request.body)
            while True:
                tries += 1
                self.budget.take_request()
                try:
                    answer = await self._transport.exchange(session, request.path, content, model)
                    break
                except TransientError as failure:
                    await self._pause(failure, tries)
            self.budget.add(read_usage(answer))
            value = request.parse(answer)
            if request.keep is not None:
                await asyncio.to_thread(request.keep, value)
        except EyechartError as error:
            if isinstance(error, ApiError) and error.fatal:
                raise
            return Reply(request.id, None, error, tries, time.monotonic() - start)
        return Reply(request.id, value, None, tries, time.monotonic() - start)

    async def _pause(self, failure: TransientError, tries: int) -> None:
        """Wait before the next try, or raise the error when there is none."""
        error = failure.error
        if tries >= self.retry.tries:
            if tries > 1:
                error = type(error)(f"{error.message} (tried {tries} times)", advice=error.advice)
            raise error from failure
        wait = self.retry.wait(tries)
        if failure.retry_after is not None:
            if failure.retry_after > self.retry.longest_retry_after:
                raise type(error)(
                    f"{error.message} (it asks to wait {failure.retry_after:.0f} s)", advice="Run again later."
                ) from failure
            # Beyond the asked time a little spread, so that not all waiting requests come back at once.
            wait = failure.retry_after + min(wait, self.retry.first_wait)
        await asyncio.sleep(wait)

    def _alone(self, timeout: float | None = None) -> ApiClient:
        return ApiClient(
            self.api_base,
            self._transport.key,
            concurrency=1,
            timeout=timeout or self._transport.timeout,
            retry=self.retry if timeout is None else Retry(tries=min(3, self.retry.tries), first_wait=0.2),
            budget=self.budget if timeout is None else None,
            max_response_bytes=self._transport.max_response_bytes,
        )


class _Run(Generic[T]):
    """The workers of one `map`: each takes the next request when it is free."""

    def __init__(self, client: ApiClient, requests: Iterator[Request[T]], emit: Emit[Reply[T]]) -> None:
        self._stop: Exception | None = None
        self._client = client
        self._requests = requests
        self._emit = emit
        self._next = asyncio.Lock()

    async def all(self, session: httpx2.AsyncClient) -> None:
        workers = [asyncio.create_task(self._work(session)) for _ in range(self._client.concurrency)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
        if self._stop is not None:
            raise self._stop

    async def _work(self, session: httpx2.AsyncClient) -> None:
        while (request := await self._take()) is not None:
            try:
                reply = await self._client.send(session, request)
            except ApiError as error:
                self._stop = self._stop or error
                return
            await self._emit(reply)

    async def _take(self) -> Request[T] | None:
        async with self._next:
            if self._stop is not None:
                return None
            try:
                # In a thread: the next request may be read from a disk or an archive.
                return await asyncio.to_thread(next, self._requests, None)
            except Exception as error:  # noqa: BLE001 - raised by `all`, when the answers in flight are in
                self._stop = error
                return None


def _encode(body: Mapping[str, Any] | Callable[[], Mapping[str, Any]] | None) -> tuple[bytes | None, str]:
    """Serialise a body; also its model name, which explains a 404."""
    if body is None:
        return None, ""
    built = body() if callable(body) else body
    return json.dumps(built, allow_nan=False, separators=(",", ":")).encode(), str(built.get("model", ""))


def _model_names(body: Json) -> tuple[str, ...]:
    listed = body.get("data", body.get("models"))
    rows = [listed] if isinstance(listed, Mapping) else listed if isinstance(listed, list) else []
    names = [row.get("id", row.get("name")) if isinstance(row, Mapping) else row for row in rows]
    return tuple(name for name in names if isinstance(name, str))


def _shortlist(names: tuple[str, ...], limit: int = 8) -> str:
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(one_line(name, 80) for name in names[:limit]) + more
