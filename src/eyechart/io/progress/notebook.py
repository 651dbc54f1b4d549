"""Progress for people who call from Python: bars in a notebook and on a terminal, nothing in a script's log."""

from __future__ import annotations

import html
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from eyechart.io.progress import Bar, NoProgress, Progress, RichProgress

INTERVAL = 0.2
"""Seconds between two looks of a bar: a notebook keeps every message that it gets."""


class NotebookProgress:
    """A bar per step, below each other in one output of the cell; it needs no widgets."""

    def __init__(self) -> None:
        from IPython.display import HTML, display

        self._html = HTML
        self._handle = display(HTML(""), display_id=True)
        self._lines: list[str] = []

    @contextmanager
    def step(self, name: str, total: int | None) -> Iterator[Bar]:
        """Show a bar while the block runs, and how long it took when it is done."""
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
        """Draw the last bar anew."""
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
    """Tell whether this is a kernel of Jupyter, whose output people see as HTML."""
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")


def progress_of(wanted: bool | Progress | None) -> Progress:
    """Return what an argument ``progress`` asks for; by default what fits the place."""
    if wanted is False:
        return NoProgress()
    if wanted is not None and wanted is not True:
        return wanted
    if in_notebook():
        return NotebookProgress()
    return RichProgress() if wanted or sys.stderr.isatty() else NoProgress()
