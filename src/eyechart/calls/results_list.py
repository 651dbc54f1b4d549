"""Several results: a list, and a table to look at."""

from __future__ import annotations

from eyechart.results.result import Result


class Results(list[Result]):
    """A list of results that shows itself as a table."""
