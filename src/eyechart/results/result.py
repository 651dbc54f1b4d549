"""A result as a value: its metrics, and everything needed to trust and repeat them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eyechart.types import Fact, Metric

IDENTITY = ("dataset", "model", "pretrained", "task", "language")
"""The keys that say what a result is of."""


@dataclass(frozen=True)
class Result:
    """One evaluation. ``values`` hold the metrics; ``metrics``, ``intervals`` and ``chance`` are views of them."""

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
    records: Mapping[str, Any] = field(default_factory=dict)
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
