"""The one HTTP client for OpenAI-compatible servers, and the workers that send many requests at a time."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from eyechart.api.budget import Budget, read_usage
from eyechart.api.errors import ApiError, EndpointMissingError, ModelNotServedError, RequestRefusedError
from eyechart.api.limiter import (
    AdaptiveLimit,
    AdaptiveLimiter,
    BusyError,
    Emit,
    RepeatedFailureGuard,
    Retry,
    TransientError,
    pump,
)
from eyechart.api.requests import InFlightRequest, Json, Reply, Request, one_line
from eyechart.api.transport import Transport, check_api_base
from eyechart.errors import EyechartError, nearest
from eyechart.io.secrets import Secret, find_key
from eyechart.messages import UserMessage

if TYPE_CHECKING:
    import httpx2


T = TypeVar("T")
READERS = 4
"""Threads that read requests and encode their images."""
LONGEST_HOLD = 10.0
"""Longest pause, in seconds, for a server that refuses everything without a Retry-After."""
MOST_REFUSALS = 4
"""Factor of ``tries``: how often a single request may be refused for lack of capacity while others are answered."""


class Sending(Generic[T]):
    """Sends the requests of one run, with retries; after a fatal error no new request is sent."""

    def __init__(self, client: ApiClient, requests: Iterable[Request[T]], emit: Emit[Reply[T]]) -> None:
        self._transport, self._retry, self._budget = client.transport, client.retry, client.budget
        self._requests, self._emit = iter(requests), emit
        self._limiter = AdaptiveLimiter(client.limit)
        self._failures = RepeatedFailureGuard()
        self._next = threading.Lock()
        self._under_way = 0
        self._all_taken = False
        self._broken: Exception | None = None
        """Error raised by the iterator of requests."""
        self._stop: ApiError | None = None
        """Fatal error that ended the run."""
        self._stopped = asyncio.Event()
        self._readers = ThreadPoolExecutor(READERS, "eyechart-read")
        # Threads that wait for the disk share one flush, if each request has a thread to wait in.
        self._keepers = ThreadPoolExecutor(client.limit.most, "eyechart-keep")

    async def run(self) -> None:
        """Send everything; raise the error that ended the run early once all requests in flight have finished."""
        with self._readers, self._keepers:
            async with AsyncExitStack() as stack:
                # A connection per worker: a shared pool scans all its connections before every request.
                sessions = self._transport.sessions(self._limiter.limit.most)
                opened = [await stack.enter_async_context(session) for session in sessions]
                workers = [asyncio.create_task(self._work(session)) for session in opened]
                try:
                    await asyncio.gather(*workers)
                finally:
                    for worker in workers:
                        worker.cancel()
                    await asyncio.gather(*workers, return_exceptions=True)
        failure = self._stop or self._broken
        if failure is not None:
            raise failure

    async def _work(self, session: httpx2.AsyncClient) -> None:
        loop = asyncio.get_running_loop()
        under: InFlightRequest[T] | None = None
        while self._stop is None and (under is not None or not self._all_taken):
            number, reply = await self._limiter.enter(), None
            try:
                under = under or await loop.run_in_executor(self._readers, self._take)
                if under is None or self._stop is not None:
                    self._limiter.failed()
                    break
                reply = await self._answer(session, under, number)
                under = under.following
                self._failures.see(reply)
            except ApiError as error:
                self._stop = self._stop or error
            if reply is not None:
                await self._emit(reply)
        if self._stop is not None:
            self._stopped.set()
            self._limiter.open()

    def _keep_and_take(self, keep: Callable[[T], None], value: T) -> InFlightRequest[T] | None:
        """Store a value and prepare the next request in one thread hop instead of two."""
        keep(value)
        return self._take()

    def _take(self) -> InFlightRequest[T] | None:
        """Read the next request and build its body, in a thread: both may read files and archives."""
        with self._next:
            if self._all_taken or self._stop is not None:
                return None
            try:
                request = next(self._requests, None)
            except Exception as error:  # noqa: BLE001 - raised by `run`, when what was read before is answered
                request, self._broken = None, error
            if request is None:
                self._all_taken = True
                return None
        return self._prepare(InFlightRequest(request, time.monotonic()))

    def _prepare(self, under: InFlightRequest[T]) -> InFlightRequest[T]:
        """Build the body of a request."""
        request = under.request
        try:
            body = request.body() if callable(request.body) else request.body
        except EyechartError as error:
            under.broken = error
            return under
        if body is not None:
            under.content = json.dumps(body, allow_nan=False, separators=(",", ":")).encode()
            under.model = str(body.get("model", ""))
        return under

    async def _answer(self, session: httpx2.AsyncClient, under: InFlightRequest[T], number: int) -> Reply[T] | None:
        """Send one request until it is answered or has failed for good; a fatal error is raised."""
        self._under_way += 1
        try:
            while True:
                try:
                    return under.reply(await self._try(session, under, number))
                except TransientError as failure:
                    await self._wait(failure, under)
                except RequestRefusedError as refusal:
                    if under.request.amend is None or not under.request.amend(refusal):
                        raise
                    await asyncio.get_running_loop().run_in_executor(self._readers, self._prepare, under)
                number = await self._limiter.enter(first=True)
                if self._stop is not None:
                    self._limiter.failed()
                    return None
        except EyechartError as error:
            if isinstance(error, ApiError) and error.fatal:
                raise
            return under.reply(None, error)
        finally:
            self._under_way -= 1

    async def _try(self, session: httpx2.AsyncClient, under: InFlightRequest[T], number: int) -> T:
        """Send a request once; its slot is freed after the value is stored."""
        request, leave = under.request, self._limiter.failed
        try:
            if under.broken is not None:
                raise under.broken
            self._budget.take_request()
            under.tries += 1
            sent = time.monotonic()
            answer = await self._transport.exchange(session, request.path, under.content, under.model)
            leave, seconds = self._limiter.answered, time.monotonic() - sent
            self._budget.add(read_usage(answer))
            value = self._transport.read(answer, request.parse)
            del answer  # it may contain the key, and tracebacks show variables
            if isinstance(value, Exception):
                raise value
            if request.timed is not None:
                value = request.timed(value, seconds, under.tries - 1)
            if request.keep is not None:
                loop = asyncio.get_running_loop()
                under.following = await loop.run_in_executor(self._keepers, self._keep_and_take, request.keep, value)
        except BusyError:
            leave = partial(self._limiter.refused, number)
            raise
        finally:
            leave()
        return value

    async def _wait(self, failure: TransientError, under: InFlightRequest[T]) -> None:
        """Wait before the next attempt, or raise the error if none is left."""
        if not isinstance(failure, BusyError):
            under.failures += 1
            if under.failures >= self._retry.tries:
                raise failure.last(under.tries)
            await self._pause(self._retry.after(failure, under.failures))
            return
        limit, under.refusals = self._limiter.limit, under.refusals + 1
        if limit.refusals >= self._retry.refusals:  # and no answer in between
            raise failure.last(under.tries, fatal=not self._all_taken or self._under_way > 1)
        if under.refusals >= self._retry.tries * MOST_REFUSALS:
            raise failure.last(under.tries)
        if failure.retry_after is not None:
            async with self._limiter.hold():
                await self._pause(self._retry.after(failure, 1))
        elif not self._limiter.in_flight:
            async with self._limiter.hold():  # no request is being served at all
                await self._pause(min(self._retry.wait(limit.refusals), LONGEST_HOLD))
        elif under.refusals > 1:
            await self._pause(self._retry.wait(under.refusals))

    async def _pause(self, seconds: float) -> None:
        """Sleep, but no longer than the run lasts."""
        pause, end = asyncio.create_task(asyncio.sleep(seconds)), asyncio.create_task(self._stopped.wait())
        await asyncio.wait({pause, end}, return_when=asyncio.FIRST_COMPLETED)
        pause.cancel()
        end.cancel()


MAX_RESPONSE_BYTES = 128 * 1024 * 1024
_CHECK_SECONDS = 15.0
_LISTED = 8
"""Names of served models quoted in an error."""


class ApiClient:
    """Sends requests to one server with bounded concurrency, timeouts, retries, a budget and a hidden key.

    It keeps no connection open between calls, so it needs no closing. `budget.used` counts what was sent.
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
        key_header: str = "",
    ) -> None:
        if concurrency < 1 or timeout <= 0:
            raise ValueError(f"need concurrency >= 1 and timeout > 0, not {concurrency} and {timeout}")
        self.api_base = check_api_base(api_base)
        self.concurrency = concurrency
        self.retry = retry or Retry()
        self.budget = budget or Budget()
        key = find_key(api_key, api_key_variable)
        self.transport = Transport(self.api_base, key, timeout, max_response_bytes, key_header)
        self.limit = AdaptiveLimit(concurrency)

    def __repr__(self) -> str:
        return f"ApiClient({self.api_base!r}, concurrency={self.concurrency})"

    def map(self, requests: Iterable[Request[T]]) -> Iterator[Reply[T]]:
        """Send all requests, at most `concurrency` at a time, and yield the replies as they arrive.

        The number in flight adapts to the server: see `eyechart.api.limiter`. Replies come in order of completion and
        carry the ids of their requests. `requests` is consumed only as fast as responses arrive. A request that fails
        for good yields a reply with its error, unless the error is fatal (wrong key, unknown model, server down, budget
        spent, every request refused): then no new request is sent, those in flight are awaited, and the error is raised
        at the end. Leaving the loop early cancels the requests in flight.
        """

        async def produce(emit: Emit[Reply[T]]) -> None:
            await Sending(self, requests, emit).run()

        return pump(produce, room=self.concurrency)

    def call(self, request: Request[T]) -> T:
        """Send one request and return its value, or raise its error."""
        [reply] = self._alone().map([request])
        return reply.result()

    def check(self, model: str | None = None) -> tuple[str, ...]:
        """Check that the server is reachable, accepts the key and serves the model, before any request is paid for.

        Returns the names from GET {api_base}/models; empty if the server has no such endpoint, in which case only the
        connection and the key are verified.
        """
        quick = self._alone(timeout=min(_CHECK_SECONDS, self.transport.timeout))
        try:
            names = quick.call(Request("models", "models", None, _model_names))
        except EndpointMissingError:
            return ()
        if model is not None and names and model not in names and "*" not in names:
            near = " or ".join(nearest(model, names))
            more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
            raise ModelNotServedError(
                "{address} does not serve the model {name!r} (it serves: {list}).",
                advice=UserMessage("Did you mean {names}?", names=near) if near else "Use one of these names.",
                address=self.api_base,
                name=model,
                list=", ".join(one_line(name, 80) for name in names[:_LISTED]) + more,
            )
        return names

    def _alone(self, timeout: float | None = None) -> ApiClient:
        return ApiClient(
            self.api_base,
            self.transport.key,
            concurrency=1,
            timeout=timeout or self.transport.timeout,
            retry=self.retry if timeout is None else Retry(tries=min(3, self.retry.tries), first_wait=0.2),
            budget=self.budget if timeout is None else None,
            max_response_bytes=self.transport.max_response_bytes,
            key_header=self.transport.key_header,
        )


def _model_names(body: Json) -> tuple[str, ...]:
    listed = body.get("data", body.get("models"))
    rows = [listed] if isinstance(listed, Mapping) else listed if isinstance(listed, list) else []
    names = [row.get("id", row.get("name")) if isinstance(row, Mapping) else row for row in rows]
    return tuple(name for name in names if isinstance(name, str))
