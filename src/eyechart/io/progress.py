"""Progress of long steps: rich bars, plain lines, notebook bars, a file for `eyechart serve`, and the run log."""

from __future__ import annotations

import html
import json
import logging
import os
import platform
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, TextIO, TypeVar

from eyechart.errors import UsageError
from eyechart.io.files import make_folder, open_plain, write_atomic
from eyechart.io.safe_parse import is_number, parse_json
from eyechart.io.secrets import Secret, redact_text
from eyechart.io.stopwatch import JobClock, duration
from eyechart.io.terminal import make_console, translate, visible, wrap, write_message
from eyechart.messages import UserMessage, join

if TYPE_CHECKING:
    from rich.progress import Task


T = TypeVar("T")

PLAIN_INTERVAL = 10.0
"""Seconds between two lines of plain progress, so that a long log stays readable."""


class Bar(Protocol):
    """Progress of a running step."""

    def advance(self, count: int = 1) -> None:
        """Report ``count`` more finished items."""


class Progress(Protocol):
    """Receiver of progress."""

    @contextmanager
    def step(self, name: str, total: int | None) -> Iterator[Bar]:
        """Show a step of ``total`` items while the block runs."""

    def say(self, line: str) -> None:
        """Show a line between steps."""


def bar_each(items: Iterable[T], bar: Bar) -> Iterator[T]:
    """Yield items, advancing a bar by one each."""
    for item in items:
        bar.advance()
        yield item


class _Silent:
    def advance(self, count: int = 1) -> None:
        """Do nothing."""


class NoProgress:
    """Shows nothing: the default of the library, and ``--quiet``."""

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
        left = (
            [UserMessage("{time} left", time=duration((self.total - self.done) / rate))] if self.total and rate else []
        )
        line = join([f"{self.name}: {self.done}{of}", f"{rate:.1f}/s", *left], ", ")
        write_message("{line}\n", self.stream, line=line)

    def finish(self) -> None:
        seconds = max(time.monotonic() - self.start, 1e-9)
        took = f"in {duration(seconds)}, {self.done / seconds:.1f}/s"
        write_message("{name}: {done} {took}\n", self.stream, name=self.name, done=self.done, took=took)


class PlainProgress:
    """A line every ten seconds and one at the end of each step, for logs and pipes."""

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
        write_message("{line}\n", self.stream, line=line)


class RichProgress:
    """Bars with rate and remaining time, for a terminal, and one for all jobs of the run."""

    def __init__(self, jobs: JobClock | None = None) -> None:
        self.console = make_console(stderr=True)
        self.jobs = jobs

    @contextmanager
    def step(self, name: str, total: int | None) -> Iterator[Bar]:
        """Show a bar while the block runs; a finished one stays, with its duration."""
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
    time = task.time_remaining
    left = "" if time is None else f"  {translate(UserMessage('{time} left', time=duration(time)))}"
    return f"{task.percentage:3.0f} %  {task.completed:.0f}/{task.total:.0f}  {rate}{left}"


def _all(jobs: JobClock, _: object) -> str:
    left = "" if jobs.left is None else UserMessage("about {time} left", time=duration(jobs.left))
    done = UserMessage("{done}/{total} done", done=jobs.done, total=jobs.total)
    return "  ".join(translate(text) for text in (done, left) if text)


def choose_progress(*, quiet: bool, stream: TextIO | None = None, jobs: JobClock | None = None) -> Progress:
    """Return the progress for a stream: none if quiet, bars on a terminal, lines otherwise."""
    if quiet:
        return NoProgress()
    target = stream or sys.stderr
    return RichProgress(jobs) if target.isatty() else PlainProgress(target)


# Progress as a file next to the results, so that ``eyechart serve`` can show runs of other processes.


PROGRESS_PREFIX = "eyechart-progress-"
"""Start of the file name. The suffix is not .json, so that no tool takes a leftover for a result."""
EVERY = 1.0
"""Seconds between two writes."""


class ProgressFile:
    """Forwards progress to ``inner`` and keeps a file up to date while the block runs."""

    def __init__(self, inner: Progress, folder: Path, jobs: JobClock) -> None:
        self.inner, self.jobs = inner, jobs
        self.path = folder / f"{PROGRESS_PREFIX}{platform.node()}-{os.getpid()}.progress"
        self.body: dict[str, Any] = {"started": time.time(), "step": None}
        self._written = 0.0

    def __enter__(self) -> Self:
        try:
            self._write()
        except OSError as error:
            raise UsageError(
                "Cannot write to the folder {path} ({reason}).",
                advice="Choose another {--output} for the results.",
                path=self.path.parent,
                reason=error.strerror,
            ) from error
        return self

    def __exit__(self, *exception: object) -> None:
        self.path.unlink(missing_ok=True)

    @contextmanager
    def step(self, name: str, total: int | None) -> Iterator[Bar]:
        """Show a step of ``total`` items while the block runs."""
        with self.inner.step(name, total) as bar:
            yield _RecordedBar(self, bar, name, total)
        self.body["step"] = None
        self._try_to_write()

    def say(self, line: str) -> None:
        """Show one line between steps."""
        self.inner.say(line)

    def job_done(self, *, skipped: bool = False) -> None:
        """Count a finished job. Skipped ones are written at intervals: there may be thousands per second."""
        self.jobs.finish(skipped=skipped)
        if skipped:
            self._now_and_then()
        else:
            self._try_to_write()

    def update(self, step: dict[str, Any]) -> None:
        """Set the state of the running step; written at most once a second."""
        self.body["step"] = step
        self._now_and_then()

    def _now_and_then(self) -> None:
        if time.monotonic() - self._written >= EVERY:
            self._try_to_write()

    def _try_to_write(self) -> None:
        # A run must not fail because its progress cannot be written.
        with suppress(OSError):
            self._write()

    def _write(self) -> None:
        self._written = time.monotonic()
        self.body |= {"updated": time.time(), "jobs": {"done": self.jobs.done, "total": self.jobs.total}}
        write_atomic(self.path, json.dumps(self.body).encode(), durable=False)


class _RecordedBar:
    def __init__(self, file: ProgressFile, inner: Bar, name: str, total: int | None) -> None:
        self.file, self.inner, self.name, self.total = file, inner, name, total
        self.done = 0
        self.start = time.monotonic()

    def advance(self, count: int = 1) -> None:
        self.inner.advance(count)
        self.done += count
        rate = self.done / max(time.monotonic() - self.start, 1e-9)
        self.file.update({"name": self.name, "done": self.done, "total": self.total, "rate": round(rate, 3)})


def read_progress(folder: Path) -> list[dict[str, Any]]:
    """Read the progress of all runs that write below a folder, skipping unreadable files."""
    found = []
    for path in sorted(folder.rglob(f"{PROGRESS_PREFIX}*.progress")):
        try:
            body = parse_json(path.read_bytes())
        except (OSError, ValueError):
            continue  # deleted or not ours
        if isinstance(body, dict) and is_number(body.get("updated")):
            found.append(body | {"file": path.name})
    return found


# Progress for Python callers: bars in notebooks and terminals, nothing in logs.


INTERVAL = 0.2
"""Seconds between two updates of a bar: a notebook stores every message."""


class NotebookProgress:
    """A bar per step in one cell output; needs no widgets."""

    def __init__(self) -> None:
        from IPython.display import HTML, display

        self._html = HTML
        self._handle = display(HTML(""), display_id=True)
        self._lines: list[str] = []

    @contextmanager
    def step(self, name: str, total: int | None) -> Iterator[Bar]:
        """Show a bar while the block runs, then its duration."""
        bar = _NotebookBar(self, name, total)
        self._lines.append("")
        try:
            bar.show(done=False)
            yield bar
        finally:
            bar.show(done=True)

    def say(self, line: str) -> None:
        """Add a line."""
        self._lines.append(f"<div>{html.escape(line)}</div>")
        self._update()

    def replace_last(self, line: str) -> None:
        """Redraw the last bar."""
        self._lines[-1] = line
        self._update()

    def _update(self) -> None:
        self._handle.update(self._html("".join(self._lines)))


class _NotebookBar:
    def __init__(self, progress: NotebookProgress, name: str, total: int | None) -> None:
        self.progress, self.name, self.total = progress, name, total
        self.count = 0
        self.start = self.last = time.monotonic()

    def advance(self, count: int = 1) -> None:
        self.count += count
        now = time.monotonic()
        if now - self.last >= INTERVAL:
            self.last = now
            self.show(done=False)

    def show(self, *, done: bool) -> None:
        seconds = time.monotonic() - self.start
        of = f" of {self.total}" if self.total else ""
        most = self.total or (self.count if done else 0)
        value = f' value="{self.count}" max="{most}"' if most else ""
        self.progress.replace_last(
            f"<div><progress{value}></progress> {html.escape(self.name)}: {self.count}{of}, {seconds:.1f} s</div>"
        )


def in_notebook() -> bool:
    """Whether this is a Jupyter kernel, which shows output as HTML."""
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")


def progress_of(wanted: bool | Progress | None) -> Progress:
    """Return the progress for an argument ``progress``; None chooses by environment."""
    if wanted is False:
        return NoProgress()
    if wanted is not None and wanted is not True:
        return wanted
    if in_notebook():
        return NotebookProgress()
    return RichProgress() if wanted or sys.stderr.isatty() else NoProgress()


# Log of a run, written to a file and to the progress display, with keys redacted.


FORMAT = "%(asctime)s - {name} - %(levelname)s: %(message)s"
DATES = "%Y-%m-%d %H:%M:%S"


class _RedactingFormatter(logging.Formatter):
    """Redacts keys in formatted records, tracebacks included: a server's message may quote one."""

    def __init__(self, secrets: Sequence[Secret]) -> None:
        super().__init__(FORMAT.format(name="eyechart"), DATES)
        self.secrets = secrets

    def format(self, record: logging.LogRecord) -> str:
        return redact_text(super().format(record), self.secrets)


class _ProgressHandler(logging.Handler):
    def __init__(self, progress: Progress) -> None:
        super().__init__(logging.INFO)
        self.progress = progress

    def emit(self, record: logging.LogRecord) -> None:
        self.progress.say(self.format(record))


@contextmanager
def run_log(path: Path, progress: Progress, secrets: Sequence[Secret]) -> Iterator[logging.Logger]:
    """Open the log; records also go to ``progress``. Loggers of other libraries are unaffected."""
    logger = logging.Logger("eyechart.run", logging.DEBUG)  # noqa: LOG001 - two runs at a time must not mix
    try:
        file = open_plain(make_folder(path.parent) / path.name, "a", "utf-8")
    except OSError as error:
        raise UsageError(
            "Cannot write the log {path} ({reason}).",
            advice="Choose another work_dir; symbolic links are not followed.",
            path=path,
            reason=error.strerror,
        ) from error
    handlers: list[logging.Handler] = [logging.StreamHandler(file), _ProgressHandler(progress)]
    for handler in handlers:
        handler.setFormatter(_RedactingFormatter(secrets))
        logger.addHandler(handler)
    try:
        yield logger
    finally:
        file.close()
