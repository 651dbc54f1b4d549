"""Yield from a synchronous generator what an asynchronous producer makes meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")
Emit = Callable[[T], Awaitable[None]]


def pump(produce: Callable[[Emit[T]], Awaitable[None]], room: int) -> Iterator[T]:
    """Run `produce` in an event loop of its own thread and yield what it emits, as it comes.

    The producer goes on while the consumer works, up to `room` items ahead. An exception of the producer is
    raised after all that it emitted before. Leaving the generator early cancels the producer. A thread of
    its own, because the caller may be inside an event loop itself (a notebook is).
    """
    items: queue.Queue[T | _End] = queue.Queue(maxsize=room)
    runner = _Runner(produce, items)
    thread = threading.Thread(target=runner.run, name="eyechart-api", daemon=True)
    thread.start()
    try:
        while not isinstance(item := items.get(), _End):
            yield item
        if item.error is not None:
            raise item.error
    finally:
        runner.cancel()
        while thread.is_alive():
            _empty(items)  # a producer that waits for room must get it before it can end
            thread.join(timeout=0.02)


def _empty(items: queue.Queue[T]) -> None:
    with contextlib.suppress(queue.Empty):
        while True:
            items.get_nowait()


class _End:
    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


class _Runner(Generic[T]):
    def __init__(self, produce: Callable[[Emit[T]], Awaitable[None]], items: queue.Queue[T | _End]) -> None:
        self._produce = produce
        self._items = items
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._cancelled = False

    def run(self) -> None:
        try:
            asyncio.run(self._main())
        except asyncio.CancelledError:
            self._items.put(_End())
        except BaseException as error:  # noqa: BLE001 - it is raised again in the consumer's thread
            self._items.put(_End(error))
        else:
            self._items.put(_End())

    async def _main(self) -> None:
        with self._lock:
            if self._cancelled:
                return
            self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        try:
            await self._produce(self._emit)
        finally:
            with self._lock:
                self._loop = self._task = None

    async def _emit(self, item: T) -> None:
        try:
            self._items.put_nowait(item)
        except queue.Full:
            await asyncio.to_thread(self._items.put, item)

    def cancel(self) -> None:
        with self._lock:
            self._cancelled = True
            if self._loop is not None and self._task is not None:
                self._loop.call_soon_threadsafe(self._task.cancel)
