"""Progress of long steps, as an object that is handed down: rich bars, plain lines, or nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol, TextIO, TypeVar

from eyechart.io.terminal import make_console, visible, write_message

T = TypeVar("T")

PLAIN_INTERVAL = 10.0
"""Seconds between two lines of the plain form, so that a log of an hour stays readable."""


class Bar(Protocol):
    """One running step."""

    def advance(self, count: int = 1) -> None:
        """Say that ``count`` more items are done."""


class Progress(Protocol):
    """Where steps report to."""

    @contextmanager
    def step(self, name: str, total: int | None) -> Iterator[Bar]:
        """Show a step of ``total`` items while the block runs."""

    def say(self, line: str) -> None:
        """Show one line between steps."""


def bar_each(items: Iterable[T], bar: Bar) -> Iterator[T]:
    """Yield items, advancing a bar by each."""
    for item in items:
        bar.advance()
        yield item


class _Silent:
    def advance(self, count: int = 1) -> None:
        """Ignore it."""


class NoProgress:
    """Shows nothing: the default of the library and ``--quiet``."""

    @contextmanager
    def step(self, name: str, total: int | None) -> Iterator[Bar]:  # noqa: ARG002 - the protocol's signature
        """Run the block without showing it."""
        yield _Silent()

    def say(self, line: str) -> None:
        """Drop the line."""


class _PlainBar:
    def __init__(self, name: str, total: int | None, stream: TextIO) -> None:
        self.name, self.total, self.stream = name, total, stream
        self.done = 0
        self.start = self.last = time.monotonic()

    def advance(self, count: int = 1) -> None:
        self.done += count
        now = time.monotonic()
        if now - self.last >= PLAIN_INTERVAL:
            self.last = now
            self.write(now)

    def write(self, now: float) -> None:
        seconds = max(now - self.start, 1e-9)
        rate = self.done / seconds
        of = f"/{self.total}" if self.total else ""
        left = f", {(self.total - self.done) / rate:.0f} s left" if self.total and rate else ""
        write_message(f"{self.name}: {self.done}{of}, {rate:.1f}/s{left}\n", self.stream)


class PlainProgress:
    """A line every ten seconds and one at the end of each step: for logs and pipes."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stderr

    @contextmanager
    def step(self, name: str, total: int | None) -> Iterator[Bar]:
        """Show the step as lines with count, rate and time left."""
        bar = _PlainBar(name, total, self.stream)
        yield bar
        bar.write(time.monotonic())

    def say(self, line: str) -> None:
        """Write the line."""
        write_message(f"{line}\n", self.stream)


class RichProgress:
    """Bars with rate and time left, for a terminal."""

    def __init__(self) -> None:
        self.console = make_console(stderr=True)

    @contextmanager
    def step(self, name: str, total: int | None) -> Iterator[Bar]:
        """Show a bar while the block runs."""
        from rich import progress as rich
        from rich.text import Text

        class Rate(rich.ProgressColumn):
            def render(self, task: rich.Task) -> Text:
                return Text(f"{task.finished_speed or task.speed or 0:.0f}/s", style="progress.data.speed")

        columns = (
            rich.TextColumn("{task.description:32}", markup=False),
            rich.BarColumn(),
            rich.MofNCompleteColumn(),
            Rate(),
            rich.TimeRemainingColumn(elapsed_when_finished=True),
        )
        with rich.Progress(*columns, console=self.console) as progress:
            task = progress.add_task(visible(name), total=total)

            class Live:
                def advance(self, count: int = 1) -> None:
                    progress.advance(task, count)

            yield Live()

    def say(self, line: str) -> None:
        """Print the line above the bars."""
        self.console.print(line)


def choose_progress(*, quiet: bool, stream: TextIO | None = None) -> Progress:
    """Return what fits the place: nothing when quiet, bars on a terminal, lines elsewhere."""
    if quiet:
        return NoProgress()
    target = stream or sys.stderr
    return RichProgress() if target.isatty() else PlainProgress(target)
