"""Progress that only counts."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager

from eyechart.io.progress import NoProgress


class CountingProgress(NoProgress):
    """Remembers the total and the count of every step by its name."""

    def __init__(self) -> None:
        self.totals: dict[str, int | None] = {}
        self.done: Counter[str] = Counter()

    @contextmanager
    def step(self, name, total):
        done = self.done

        class Bar:
            def advance(self, count=1):
                done[name] += count

        self.totals[name] = total
        yield Bar()
