"""How many requests a server is sent at a time: more while it answers, fewer when it refuses.

A server that takes eight at a time and answers 429 beyond must not be sent thirty-two again and again. So a run begins
with few, adds one for each answer until the first refusal, and then keeps to what was being served at that moment. Now
and then it tries one more; each time that is refused, it waits twice as long before the next.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

START = 8
"""Requests at a time before anything is known of a server."""
MOST_PATIENT = 64
"""Rounds of answers before one more request at a time is tried, at most."""


@dataclass
class Flow:
    """The numbers: what was learnt of one server. It outlives a run, so that the next one need not learn it again."""

    most: int
    """Never more than this at a time."""
    limit: int = field(init=False)
    """How many at a time, now."""
    refusals: int = field(default=0, init=False)
    """Refusals since the last answer; those of requests that were under way together count as one."""
    round: int = field(default=0, init=False)
    """Counts the times that the server was found to be full."""
    _answers: int = field(default=0, init=False)
    _patience: int = field(default=1, init=False)
    _grew: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.limit = min(self.most, START)

    def answered(self) -> None:
        """Learn from an answer."""
        self.refusals = 0
        self._answers += 1
        enough = self.limit * self._patience if self.round else 1
        if self._answers >= enough and self.limit < self.most:
            self.limit += 1
            self._answers = 0
            if self._grew:  # one more went well, and one more again: the server takes more than it did
                self._patience = max(1, self._patience // 2)
            self._grew = True

    def refused(self, sent_in: int, serving: int) -> None:
        """Learn from a refusal: in which round the request was sent, and how many others are being served."""
        self.limit = max(1, serving)
        self._answers, self._grew = 0, False
        if sent_in == self.round:
            self.round += 1
            self.refusals += 1
            self._patience = min(2 * self._patience, MOST_PATIENT)


class Gate:
    """Lets the workers of one run pass as the flow allows."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._held = 0
        self._open = False

    async def enter(self, *, first: bool = False) -> int:
        """Wait until one more may be sent, before all others if ``first``; return the round in which it is sent."""
        while not self._open and (self._held or self.in_flight >= self.flow.limit):
            turn = asyncio.get_running_loop().create_future()
            (self._waiting.appendleft if first else self._waiting.append)(turn)
            await turn
        self.in_flight += 1
        return self.flow.round

    def answered(self) -> None:
        """Let the next pass: a request was answered."""
        self.flow.answered()
        self.failed()

    def failed(self) -> None:
        """Let the next pass: a request ended, neither with an answer nor because there were too many."""
        self.in_flight -= 1
        self._wake()

    def refused(self, sent_in: int) -> None:
        """Note that a request was one too many."""
        self.flow.refused(sent_in, self.in_flight - 1)
        self.failed()

    def _wake(self) -> None:
        room = len(self._waiting) if self._open else 0 if self._held else self.flow.limit - self.in_flight
        while room > 0 and self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                room -= 1

    def open(self) -> None:
        """Let everybody pass: the run ends, and whoever waits must see it."""
        self._open = True
        self._wake()

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        """Let nobody pass meanwhile."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1
            self._wake()
