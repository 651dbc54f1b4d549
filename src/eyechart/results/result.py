"""A result as a value: its metrics, and everything needed to trust and repeat them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eyechart.types import Fact, Metric

if TYPE_CHECKING:
    import pandas as pd

IDENTITY = ("dataset", "model", "pretrained", "task", "language")
"""The keys that say what a result is of."""


@dataclass(frozen=True, repr=False)
class Result:
    """One evaluation: a model on a benchmark.

    ``values`` hold the metrics; ``metrics``, ``intervals`` and ``chance`` are views of them. In a notebook a result
    shows itself as a table.
    """

    dataset: str
    model: str
    pretrained: str
    task: str
    language: str
    values: Mapping[str, Metric]
    facts: Mapping[str, Fact] = field(default_factory=dict)
    """What a task reports that is no metric (save_path, ...); in the file it stands among the metrics, too."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """How many samples were listed, scored and failed."""
    notices: tuple[Mapping[str, Any], ...] = ()
    failures: tuple[Mapping[str, str], ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    model_card: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    """Dataset fingerprint, split, kind, source, digest of class names and templates; ``benchmark``, the name of the
    catalogue's entry that it was read as, "" for one's own data."""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    job: Mapping[str, Any] = field(default_factory=dict)
    """What was run: settings, digest, and the identity of model, data and code at that time."""
    record_info: Mapping[str, Any] = field(default_factory=dict)
    """File name (beside the result), count, digest and form of the per-sample records."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Keys of other tools' results, kept as they are."""
    path: Path | None = field(default=None, compare=False)
    altered: bool = field(default=False, compare=False)
    """Whether the file was changed after it was written: its numbers are somebody's word, not a measurement."""

    @property
    def metrics(self) -> dict[str, float]:
        """Return the plain numbers by name."""
        return {name: metric.value for name, metric in self.values.items()}

    @property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """Return the 95 % intervals of the metrics that have one."""
        found = {name: (metric.low, metric.high) for name, metric in self.values.items()}
        return {name: (low, high) for name, (low, high) in found.items() if low is not None and high is not None}

    @property
    def chance(self) -> dict[str, float]:
        """Return the chance levels of the metrics that have one."""
        return {name: metric.chance for name, metric in self.values.items() if metric.chance is not None}

    @property
    def primary(self) -> tuple[str, ...]:
        """Name the metrics that stand for the benchmark."""
        return tuple(name for name, metric in self.values.items() if metric.primary)

    @property
    def identity(self) -> tuple[str, ...]:
        """Return the values that say what this is a result of."""
        return tuple(str(getattr(self, key)) for key in IDENTITY)

    def iter_records(self) -> Iterator[dict[str, Any]]:
        """Stream the per-sample records, once they are known to be as written; none without a records file."""
        from eyechart.results.files import record_blocks

        for block in record_blocks(self):
            yield from block

    def records(self) -> pd.DataFrame:
        """Return the per-sample records as a table, one row each, with the names of classes beside their numbers.

        Columns that hold numbers of classes (``label``, ``prediction``, ``top``) have one more with their names
        (``label_name``, ``prediction_name``, ``top_names``). Needs pandas: ``pip install 'eyechart[pandas]'``.
        """
        from eyechart.results.frames import record_frame

        return record_frame(self)

    def to_pandas(self) -> pd.DataFrame:
        """Return the metrics as a table: one row each, with interval, chance level and number of samples.

        Needs pandas: ``pip install 'eyechart[pandas]'``.
        """
        from eyechart.results.frames import metric_frame

        return metric_frame([self])

    def plot(self, metrics: str | Sequence[str] | None = None, *, ax: Any = None) -> Any:
        """Draw metrics with their intervals and chance levels; return the axes of matplotlib.

        Args:
            metrics: Names of metrics; by default all that are fractions.
            ax: Axes to draw on; by default new ones.

        Needs matplotlib: ``pip install 'eyechart[plot]'``.
        """
        from eyechart.results.plot import plot_results

        return plot_results([self], metrics, ax)

    def save(self, output: str | Path) -> Result:
        """Write the result and its records to a file, for `eyechart.read_result`, ``compare`` and ``report``.

        Args:
            output: The result file; records go beside it.

        Returns:
            The result as it is in the file.

        Raises:
            ResultError: If there is another file already, or the result of something else.
        """
        from eyechart.results.files import save_result

        return save_result(self, Path(output))

    def __repr__(self) -> str:
        from eyechart.results.show import one_line_of

        return one_line_of(self)

    def _repr_html_(self) -> str:
        from eyechart.results.show import result_html

        return result_html(self)
