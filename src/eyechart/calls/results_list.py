"""Several results: a list, and a table to look at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from eyechart.results.frames import metric_frame
from eyechart.results.plot import plot_results
from eyechart.results.result import Result
from eyechart.results.show import results_html, table_of

if TYPE_CHECKING:
    import pandas as pd


class Results(list[Result]):
    """A list of results that shows itself as a table of their primary metrics."""

    def to_pandas(self) -> pd.DataFrame:
        """Return all metrics as a table: one row each, with dataset, model, task and language.

        Needs pandas: ``pip install 'eyechart[pandas]'``.
        """
        return metric_frame(self)

    def plot(self, metrics: str | Sequence[str] | None = None, *, ax: Any = None) -> Any:
        """Draw metrics with their intervals and chance levels; return the axes of matplotlib.

        Args:
            metrics: Names of metrics; by default the primary ones.
            ax: Axes to draw on; by default new ones.

        Needs matplotlib: ``pip install 'eyechart[plot]'``.
        """
        return plot_results(self, metrics, ax)

    def __getitem__(self, place: Any) -> Any:
        found = super().__getitem__(place)
        return Results(found) if isinstance(place, slice) else found

    def __add__(self, others: Any) -> Any:
        return Results([*self, *others])

    def __repr__(self) -> str:
        return table_of(self) if self else "no results"

    def _repr_html_(self) -> str:
        return results_html(self)
