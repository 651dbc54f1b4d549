"""Progress as a small file beside the results, so that ``eyechart serve`` can show a run of another process."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from eyechart.errors import UsageError
from eyechart.io.files import write_atomic
from eyechart.io.progress import Bar, Progress
from eyechart.io.stopwatch import JobClock
from eyechart.io.untrusted import is_number, parse_json

PROGRESS_PREFIX = "eyechart-progress-"
"""Its suffix is not .json: what a killed run leaves behind must not be taken for a result by any tool."""
EVERY = 1.0
"""Seconds between two writes."""


class ProgressFile:
    """Passes progress on to ``inner`` and keeps a file up to date while the block runs; the file is then removed."""

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
                f"The folder {self.path.parent} cannot be written ({error.strerror}).",
                advice="Results go there: choose another --output, before any work is done.",
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
        """Count a finished job. Thousands may be skipped in a second: then the file follows now and then."""
        self.jobs.finish(skipped=skipped)
        if skipped:
            self._now_and_then()
        else:
            self._try_to_write()

    def update(self, step: dict[str, Any]) -> None:
        """Take over the state of the running step; written at most once a second."""
        self.body["step"] = step
        self._now_and_then()

    def _now_and_then(self) -> None:
        if time.monotonic() - self._written >= EVERY:
            self._try_to_write()

    def _try_to_write(self) -> None:
        # A run must not end because its progress cannot be shown; what it computes fails loudly on its own.
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
    """Read the progress of all runs that write below a folder; a file that is just being replaced is left out."""
    found = []
    for path in sorted(folder.rglob(f"{PROGRESS_PREFIX}*.progress")):
        try:
            body = parse_json(path.read_bytes())
        except (OSError, ValueError):
            continue  # gone or foreign: the next look will tell
        if isinstance(body, dict) and is_number(body.get("updated")):
            found.append(body | {"file": path.name})
    return found
