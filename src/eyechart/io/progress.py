"""Progress of long steps: rich bars, plain lines, notebook bars, a file for `eyechart serve`, and the run log."""

from __future__ import annotations

import atexit
import html
import json
import logging
import os
import platform
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol, Self, TextIO, TypeVar

from eyechart.errors import UsageError
from eyechart.io.files import make_folder, open_plain, write_atomic
from eyechart.io.safe_parse import is_number, parse_json
from eyechart.io.secrets import Secret, redact_text
from eyechart.io.signals import held_signals
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


MOMENT = 1.0
"""Seconds of silence after which a line says what takes so long."""


@contextmanager
def announced(progress: Progress, line: str) -> Iterator[None]:
    """Show a line if the block takes longer than a `MOMENT`: importing libraries and loading models is silent."""
    timer = threading.Timer(MOMENT, progress.say, [line])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # a line that is being written ends before the next one


class NoProgress:
    """Shows nothing: the default of the library, and ``--quiet``."""

    @contextmanager
    def step(self, name: str, total: int | None) -> Iterator[Bar]:  # noqa: ARG002 - the protocol's signature
        """Run the block without showing it."""
        yield self

    def advance(self, count: int = 1) -> None:
        """Do nothing: it is its own bar."""

    def say(self, line: str) -> None:
        """Drop the line."""


SILENT = NoProgress()


class _TimedBar:
    """Counts items and is shown at intervals; an inner bar is advanced with it."""

    def __init__(
        self, name: str, total: int | None, show: Callable[[_TimedBar], None], interval: float, inner: Bar = SILENT
    ) -> None:
        self.name, self.total, self.done = name, total, 0
        self._show, self._interval, self._inner = show, interval, inner
        self._start = self._last = time.monotonic()

    def advance(self, count: int = 1) -> None:
        self._inner.advance(count)
        self.done += count
        now = time.monotonic()
        if now - self._last >= self._interval:
            self._last = now
            self._show(self)

    @property
    def seconds(self) -> float:
        return max(time.monotonic() - self._start, 1e-9)


class PlainProgress:
    """A line every ten seconds and one at the end of each step, for logs and pipes."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stderr

    @contextmanager
    def step(self, name: str, total: int | None) -> Iterator[Bar]:
        """Show the step as lines with count, rate and time left."""
        bar = _TimedBar(translate(name), total, self._show, PLAIN_INTERVAL)
        yield bar
        if bar.done or total:  # a library may read the data itself
            took = {"time": duration(bar.seconds), "rate": f"{bar.done / bar.seconds:.1f}"}
            write_message("{name}: {done} in {time}, {rate}/s\n", self.stream, name=bar.name, done=bar.done, **took)

    def _show(self, bar: _TimedBar) -> None:
        rate = bar.done / bar.seconds
        parts = [f"{bar.name}: {bar.done}" + (f"/{bar.total}" if bar.total else ""), f"{rate:.1f}/s"]
        if bar.total and rate:
            parts.append(UserMessage("{time} left", time=duration((bar.total - bar.done) / rate)))
        self.say(join(parts, ", "))

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
                return Text(task.fields["state"](task), style="progress.data.speed")

        columns = (
            rich.TextColumn("{task.description}", markup=False, table_column=Column(min_width=24, overflow="fold")),
            rich.BarColumn(bar_width=16),
            State(table_column=Column(no_wrap=True)),
        )
        jobs = self.jobs if self.jobs is not None and self.jobs.total > 1 else None
        with rich.Progress(*columns, console=self.console) as progress:
            task = progress.add_task(visible(translate(name)), total=total, state=_step_state)
            if jobs is not None:
                every = progress.add_task(
                    translate("all jobs"), total=jobs.total, completed=jobs.done, state=lambda _: _jobs_state(jobs)
                )

            class Live:
                def advance(self, count: int = 1) -> None:
                    progress.advance(task, count)

            try:
                yield Live()
                progress.update(task, total=progress.tasks[0].completed)
            finally:
                if jobs is not None:
                    progress.remove_task(every)

    def say(self, line: str) -> None:
        """Print the line above the bars."""
        for part in wrap(visible(translate(line)), self.console.width, indent="    "):
            self.console.print(part, soft_wrap=True)


def _step_state(task: Task) -> str:
    if task.finished:
        took = duration(task.finished_time or 0)
        return f"100 %  {translate(UserMessage('{done:.0f} in {time}', done=task.completed, time=took))}"
    rate = f"{task.speed or 0:.0f}/s"
    if task.total is None:
        return f"{task.completed:.0f}  {rate}"
    time = task.time_remaining
    left = "" if time is None else f"  {translate(UserMessage('{time} left', time=duration(time)))}"
    return f"{task.percentage:3.0f} %  {task.completed:.0f}/{task.total:.0f}  {rate}{left}"


def _jobs_state(jobs: JobClock) -> str:
    left = "" if jobs.left is None else UserMessage("about {time} left", time=duration(jobs.left))
    done = UserMessage("{done}/{total} done", done=jobs.done, total=jobs.total)
    return "  ".join(translate(text) for text in (done, left) if text)


def choose_progress(*, quiet: bool, jobs: JobClock | None = None) -> Progress:
    """Return the progress for standard error: none if quiet, bars on a terminal, lines otherwise."""
    if quiet:
        return NoProgress()
    return RichProgress(jobs) if sys.stderr.isatty() else PlainProgress()


# Progress as a file next to the results, so that ``eyechart serve`` can show runs of other processes.


PROGRESS_PREFIX = "eyechart-progress-"
"""Start of the file name. The suffix is not .json, so that no tool takes a leftover for a result."""
EVERY = 1.0
"""Seconds between two writes."""
ABANDONED = 3600.0
"""Seconds without a write after which a run on another machine counts as killed."""


class ProgressFile:
    """Forwards progress to ``inner`` and keeps a file up to date while the block runs."""

    def __init__(self, inner: Progress, folder: Path, jobs: JobClock) -> None:
        self.inner, self.jobs, self._written = inner, jobs, 0.0
        self.path = folder / f"{PROGRESS_PREFIX}{platform.node()}-{os.getpid()}.progress"
        self.body: dict[str, Any] = {"started": time.time(), "step": None}

    def __enter__(self) -> Self:
        atexit.register(self.__exit__)  # if an interrupt comes between this method and the block
        try:
            # Remove the files of killed runs. A run that is only slow writes its file again.
            for path in self.path.parent.glob(f"{PROGRESS_PREFIX}*.progress"):
                with suppress(OSError):
                    node, _, number = path.stem.removeprefix(PROGRESS_PREFIX).rpartition("-")
                    here = node == platform.node() and number.isdecimal()
                    if not (_is_alive(int(number)) if here else time.time() - path.stat().st_mtime < ABANDONED):
                        path.unlink()
            self._write()
        except OSError as error:
            text = "Cannot write to the folder {path} ({reason})."
            advice = "Choose another {--output} for the results."
            raise UsageError(text, advice=advice, path=self.path.parent, reason=error.strerror) from error
        return self

    def __exit__(self, *exception: object) -> None:
        with held_signals():
            self.path.unlink(missing_ok=True)
            atexit.unregister(self.__exit__)

    @contextmanager
    def step(self, name: str, total: int | None) -> Iterator[Bar]:
        """Show a step of ``total`` items while the block runs."""

        def record(bar: _TimedBar) -> None:
            rate = round(bar.done / bar.seconds, 3)
            self.body["step"] = {"name": name, "done": bar.done, "total": total, "rate": rate}
            self.write(at_intervals=True)

        with self.inner.step(name, total) as bar:
            yield _TimedBar(name, total, record, 0.0, bar)
        self.body["step"] = None
        self.write()

    def say(self, line: str) -> None:
        """Show one line between steps."""
        self.inner.say(line)

    def job_done(self, *, skipped: bool = False) -> None:
        """Count a finished job. Skipped ones are written at intervals: there may be thousands per second."""
        self.jobs.finish(skipped=skipped)
        self.write(at_intervals=skipped)

    def write(self, *, at_intervals: bool = False) -> None:
        """Update the file, once a second if ``at_intervals``; a run does not fail because that is impossible."""
        if not at_intervals or time.monotonic() - self._written >= EVERY:
            with suppress(OSError):
                self._write()

    def _write(self) -> None:
        self._written = time.monotonic()
        self.body |= {"updated": time.time(), "jobs": {"done": self.jobs.done, "total": self.jobs.total}}
        write_atomic(self.path, json.dumps(self.body).encode(), durable=False)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)  # sends nothing
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass  # of another user
    return True


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
        bar = _TimedBar(name, total, self._show, INTERVAL)
        self._lines.append("")
        try:
            self._show(bar)
            yield bar
        finally:
            self._show(bar, done=True)

    def say(self, line: str) -> None:
        """Add a line."""
        self._lines.append(f"<div>{html.escape(line)}</div>")
        self._handle.update(self._html("".join(self._lines)))

    def _show(self, bar: _TimedBar, *, done: bool = False) -> None:
        of = f" of {bar.total}" if bar.total else ""
        most = bar.total or (bar.done if done else 0)
        value = f' value="{bar.done}" max="{most}"' if most else ""
        text = f"{html.escape(bar.name)}: {bar.done}{of}, {bar.seconds:.1f} s"
        self._lines[-1] = f"<div><progress{value}></progress> {text}</div>"
        self._handle.update(self._html("".join(self._lines)))


def progress_of(wanted: bool | Progress | None) -> Progress:
    """Return the progress for an argument ``progress``; None chooses by environment."""
    if wanted is False:
        return NoProgress()
    if wanted is not None and wanted is not True:
        return wanted
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if hasattr(shell, "kernel"):  # Jupyter, which shows output as HTML
        return NotebookProgress()
    return RichProgress() if wanted or sys.stderr.isatty() else NoProgress()


# Log of a run, written to a file and to the progress display, with keys redacted.


FORMAT = "%(asctime)s - {name} - %(levelname)s: %(message)s"
DATES = "%Y-%m-%d %H:%M:%S"


class _LogHandler(logging.StreamHandler[IO[Any]]):
    """Writes to a file and, from INFO on, to ``progress``; keys, which a server's message may quote, are redacted."""

    def __init__(self, file: IO[Any], progress: Progress, secrets: Sequence[Secret]) -> None:
        super().__init__(file)
        self.setFormatter(logging.Formatter(FORMAT.format(name="eyechart"), DATES))
        self.progress, self.secrets = progress, secrets

    def format(self, record: logging.LogRecord) -> str:
        return redact_text(super().format(record), self.secrets)

    def emit(self, record: logging.LogRecord) -> None:
        super().emit(record)
        if record.levelno >= logging.INFO:
            self.progress.say(self.format(record))


@contextmanager
def run_log(path: Path, progress: Progress, secrets: Sequence[Secret]) -> Iterator[logging.Logger]:
    """Open the log; records also go to ``progress``. Loggers of other libraries are unaffected."""
    logger = logging.Logger("eyechart.run", logging.DEBUG)  # noqa: LOG001 - two runs at a time must not mix
    try:
        file = open_plain(make_folder(path.parent) / path.name, "a", "utf-8")
    except OSError as error:
        text = "Cannot write the log {path} ({reason})."
        advice = "Choose another work_dir; symbolic links are not followed."
        raise UsageError(text, advice=advice, path=path, reason=error.strerror) from error
    logger.addHandler(_LogHandler(file, progress, secrets))
    try:
        yield logger
    finally:
        file.close()
