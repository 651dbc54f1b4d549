"""The workers of one `ApiClient.map`: each takes the next request when the server has room for it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from eyechart.api.answers import Json
from eyechart.api.budget import Budget, read_usage
from eyechart.api.errors import ApiError, BadAnswerError
from eyechart.api.requests import Reply, Request, UnderWay
from eyechart.api.retry import BusyError, Retry, TransientError
from eyechart.api.sending.flow import Flow, Gate
from eyechart.api.sending.in_a_row import InARow
from eyechart.api.transport import Transport
from eyechart.errors import EyechartError

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")
READERS = 4
"""Threads that read requests and encode their images."""
LONGEST_HOLD = 10.0
"""Seconds for which nothing is sent to a server that refuses everything and does not say until when."""
MOST_REFUSALS = 4
"""Times ``tries``: how often one request may be one too many while others are answered."""


class Sending(Generic[T]):
    """Sends the requests of one run, with retries; after a fatal error nothing new is sent."""

    def __init__(
        self,
        transport: Transport,
        retry: Retry,
        budget: Budget,
        flow: Flow,
        requests: Iterator[Request[T]],
        emit: Callable[[Reply[T]], Awaitable[None]],
    ) -> None:
        self._transport, self._retry, self._budget = transport, retry, budget
        self._requests, self._emit = requests, emit
        self._gate = Gate(flow)
        self._alike = InARow()
        self._next = threading.Lock()
        self._under_way = 0
        self._all_taken = False
        self._broken: Exception | None = None
        """Why no more requests could be read."""
        self._stop: ApiError | None = None
        """Why no more requests are sent."""
        self._stopped = asyncio.Event()
        self._readers = ThreadPoolExecutor(READERS, "eyechart-read")
        # All that wait for the disk share one flush, if each has a thread to wait in.
        self._keepers = ThreadPoolExecutor(flow.most, "eyechart-keep")

    async def run(self) -> None:
        """Send everything; raise what ended the run early when all that is in flight has arrived."""
        with self._readers, self._keepers:
            await self._run()
        failure = self._stop or self._broken
        if failure is not None:
            raise failure

    async def _run(self) -> None:
        async with AsyncExitStack() as stack:
            # A connection for each worker: a common pool looks at all its connections before every request.
            sessions = [
                await stack.enter_async_context(session) for session in self._transport.sessions(self._gate.flow.most)
            ]
            workers = [asyncio.create_task(self._work(session)) for session in sessions]
            try:
                await asyncio.gather(*workers)
            finally:
                for worker in workers:
                    worker.cancel()
                await asyncio.gather(*workers, return_exceptions=True)

    async def _work(self, session: httpx2.AsyncClient) -> None:
        under: UnderWay[T] | None = None
        while self._stop is None and (under is not None or not self._all_taken):
            number, reply = await self._gate.enter(), None
            try:
                under = under or await _in_thread(self._readers, self._take)
                if under is None or self._stop is not None:
                    self._gate.failed()
                    break
                reply = await self._answer(session, under, number)
                under = under.following
                self._alike.see(reply)
            except ApiError as error:
                self._stop = self._stop or error
            if reply is not None:
                await self._emit(reply)
        if self._stop is not None:
            self._stopped.set()
            self._gate.open()

    def _keep_and_take(self, keep: Callable[[T], None], value: T) -> UnderWay[T] | None:
        """Put an answer on disk, then make the next request: one errand for a thread instead of two."""
        keep(value)
        return self._take()

    def _take(self) -> UnderWay[T] | None:
        """Read the next request and make its body, in a thread: both may be in files and archives."""
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
        under = UnderWay(request, time.monotonic())
        under.encode()
        return under

    async def _answer(self, session: httpx2.AsyncClient, under: UnderWay[T], number: int) -> Reply[T] | None:
        """Send one request until it is answered or has failed for good; a fatal error is raised."""
        self._under_way += 1
        try:
            while True:
                try:
                    return under.reply(await self._try(session, under, number))
                except TransientError as failure:
                    await self._wait(failure, under)
                number = await self._gate.enter(first=True)
                if self._stop is not None:
                    self._gate.failed()
                    return None
        except EyechartError as error:
            if isinstance(error, ApiError) and error.fatal:
                raise
            return under.reply(None, error)
        finally:
            self._under_way -= 1

    async def _try(self, session: httpx2.AsyncClient, under: UnderWay[T], number: int) -> T:
        """Send a request once; its place is free again when the answer has been kept."""
        request, leave = under.request, self._gate.failed
        try:
            if under.broken is not None:
                raise under.broken
            self._budget.take_request()
            under.tries += 1
            answer = await self._transport.exchange(session, request.path, under.content, under.model)
            leave = self._gate.answered
            self._budget.add(read_usage(answer))
            value = _parsed(request, answer)
            if request.keep is not None:
                under.following = await _in_thread(self._keepers, self._keep_and_take, request.keep, value)
        except BusyError:
            leave = partial(self._gate.refused, number)
            raise
        finally:
            leave()
        return value

    async def _wait(self, failure: TransientError, under: UnderWay[T]) -> None:
        """Wait before the next try of a request, or raise the error when there is none."""
        if not isinstance(failure, BusyError):
            under.failures += 1
            if under.failures >= self._retry.tries:
                raise failure.last(under.tries)
            await self._pause(self._retry.after(failure, under.failures))
            return
        flow, under.refusals = self._gate.flow, under.refusals + 1
        if flow.refusals >= self._retry.refusals:  # and no answer in between
            raise failure.last(under.tries, fatal=not self._all_taken or self._under_way > 1)
        if under.refusals >= self._retry.tries * MOST_REFUSALS:
            raise failure.last(under.tries)
        if failure.retry_after is not None:
            async with self._gate.hold():
                await self._pause(self._retry.after(failure, 1))
        elif not self._gate.in_flight:
            async with self._gate.hold():  # nobody is served at all
                await self._pause(min(self._retry.wait(flow.refusals), LONGEST_HOLD))
        elif under.refusals > 1:
            await self._pause(self._retry.wait(under.refusals))

    async def _pause(self, seconds: float) -> None:
        """Wait, but no longer than the run lasts."""
        pause, end = asyncio.create_task(asyncio.sleep(seconds)), asyncio.create_task(self._stopped.wait())
        await asyncio.wait({pause, end}, return_when=asyncio.FIRST_COMPLETED)
        pause.cancel()
        end.cancel()


def _parsed(request: Request[T], answer: Json) -> T:
    """Read an answer; one of another shape, with half of it missing perhaps, may be whole the next time."""
    try:
        return request.parse(answer)
    except BadAnswerError as error:
        raise TransientError(error) from error


async def _in_thread(pool: ThreadPoolExecutor, function: Callable[..., Any], *arguments: Any) -> Any:
    return await asyncio.get_running_loop().run_in_executor(pool, function, *arguments)
