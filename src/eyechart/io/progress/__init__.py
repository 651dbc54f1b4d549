"""Progress of long steps, as an object that is handed down: rich bars, plain lines, or nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Protocol, TextIO, TypeVar

from eyechart.io.stopwatch import JobClock, duration
from eyechart.io.terminal import make_console, visible, wrap, write_message
from eyechart.io.translate import translate

if TYPE_CHECKING:
    from rich.progress import Task

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
        self.name, self.total, self.stream = translate(name), total, stream
        self.done = 0
        self.start = self.last = time.monotonic()

    def advance(self, count: int = 1) -> None:
        self.done += count
        now = time.monotonic()
        if now - self.last >= PLAIN_INTERVAL:
            self.last = now
            self.write(now)

    def write(self, now: float) -> None:
        rate = self.done / max(now - self.start, 1e-9)
        of = f"/{self.total}" if self.total else ""
        left = f", {duration((self.total - self.done) / rate)} left" if self.total and rate else ""
        write_message(f"{self.name}: {self.done}{of}, {rate:.1f}/s{left}\n", self.stream)

    def finish(self) -> None:
        seconds = max(time.monotonic() - self.start, 1e-9)
        took = f"in {duration(seconds)}, {self.done / seconds:.1f}/s"
        write_message(f"{self.name}: {self.done} {took}\n", self.stream)


class PlainProgress:
    """A line every ten seconds and one at the end of each step: for logs and pipes."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stderr

    @contextmanager
    def step(self, name: str, total: int | None) -> Iterator[Bar]:
        """Show the step as lines with count, rate and time left."""
        bar = _PlainBar(name, total, self.stream)
        yield bar
        bar.finish()

    def say(self, line: str) -> None:
        """Write the line."""
        write_message(f"{line}\n", self.stream)


class RichProgress:
    """Bars with rate and time left, for a terminal; below them one for all jobs of the run."""

    def __init__(self, jobs: JobClock | None = None) -> None:
        self.console = make_console(stderr=True)
        self.jobs = jobs

    @contextmanager
    def step(self, name: str, total: int | None) -> Iterator[Bar]:
        """Show a bar while the block runs. One that is done stays, full and with the time it took."""
        from rich import progress as rich
        from rich.table import Column
        from rich.text import Text

        class State(rich.ProgressColumn):
            def render(self, task: rich.Task) -> Text:
                return Text(task.fields.get("state", _state)(task), style="progress.data.speed")

        columns = (
            rich.TextColumn("{task.description}", markup=False, table_column=Column(min_width=24, overflow="fold")),
            rich.BarColumn(bar_width=16),
            State(table_column=Column(no_wrap=True)),
        )
        jobs = self.jobs
        with rich.Progress(*columns, console=self.console) as progress:
            task = progress.add_task(visible(translate(name)), total=total)
            if jobs is not None and jobs.total > 1:
                every = progress.add_task(
                    translate("all jobs"), total=jobs.total, completed=jobs.done, state=partial(_all, jobs)
                )

            class Live:
                def advance(self, count: int = 1) -> None:
                    progress.advance(task, count)

            try:
                yield Live()
                progress.update(task, total=progress.tasks[0].completed)
            finally:
                if jobs is not None and jobs.total > 1:
                    progress.remove_task(every)

    def say(self, line: str) -> None:
        """Print the line above the bars."""
        for part in wrap(visible(translate(line)), self.console.width, indent="    "):
            self.console.print(part, soft_wrap=True)


def _state(task: Task) -> str:
    if task.finished:
        return f"100 %  {task.completed:.0f} in {duration(task.finished_time or 0)}"
    rate = f"{task.speed or 0:.0f}/s"
    if task.total is None:
        return f"{task.completed:.0f}  {rate}"
    left = "" if task.time_remaining is None else f"  {translate(f'{duration(task.time_remaining)} left')}"
    return f"{task.percentage:3.0f} %  {task.completed:.0f}/{task.total:.0f}  {rate}{left}"


def _all(jobs: JobClock, _: object) -> str:
    left = "" if jobs.left is None else f"  {translate(f'about {duration(jobs.left)} left')}"
    return translate(f"{jobs.done}/{jobs.total} done") + left


def choose_progress(*, quiet: bool, stream: TextIO | None = None, jobs: JobClock | None = None) -> Progress:
    """Return what fits the place: nothing when quiet, bars on a terminal, lines elsewhere."""
    if quiet:
        return NoProgress()
    target = stream or sys.stderr
    return RichProgress(jobs) if target.isatty() else PlainProgress(target)
