"""What the steps of a run share, and what a step is."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from eyechart.compat.evalscope.layout import Layout
from eyechart.io.files import cache_root
from eyechart.run import JobReport, Session
from eyechart.store.answers import ResponseStore


@dataclass
class Context:
    """The stores, the log and the folder of a run."""

    layout: Layout
    log: logging.Logger
    session: Session = field(default_factory=Session)
    responses: ResponseStore = field(default_factory=lambda: ResponseStore(cache_root() / "responses"))


class Step(Protocol):
    """A planned piece of work. Making one has checked all that can be checked on this machine without loading."""

    def probe(self, context: Context) -> None:
        """See that what is elsewhere (servers) is there, before any step of the run begins."""
        ...

    def run(self, context: Context) -> Iterator[JobReport]:
        """Do the work; a job that fails is reported and does not stop the others."""
        ...
