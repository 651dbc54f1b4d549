"""Metrics of compressed vectors next to those of the full ones, with paired differences on the same samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from eyechart.metrics.compression import Compression
from eyechart.report.paired_records import compare_records
from eyechart.report.record_columns import as_columns
from eyechart.stats import holm
from eyechart.types import Metric, Outcome, RecordForm

NUMBERS = ("difference", "low", "high", "p_value")


class CompressionCurve:
    """Collects the points of a curve: the full vectors first, then each dimension in each precision.

    Differences are the point's metric minus that of the full vectors. The p-values are those of the test that gives the
    interval; ``p_holm`` is adjusted over all points and metrics by Holm's method.
    """

    def __init__(self, full: Outcome, metrics: Mapping[str, Metric], form: RecordForm) -> None:
        self.full, self.form = full, form
        self.columns = as_columns(full, form)
        primary = [name for name, metric in metrics.items() if metric.primary]
        self.names = primary or list(metrics)[:1]
        self.points: list[dict[str, Any]] = []

    def add(self, outcome: Outcome, compression: Compression, dim: int) -> None:
        """Add the outcome of vectors of ``dim`` dimensions, compressed."""
        columns = None if outcome is self.full else as_columns(outcome, self.form)
        metrics: dict[str, dict[str, Any]] = {}
        for name in self.names:
            metric, full = outcome.metrics[name], self.full.metrics[name]
            metrics[name] = {"value": metric.value, "low": metric.low, "high": metric.high}
            if columns is not None:
                tested = compare_records((full, self.columns), (metric, columns))
                numbers = asdict(tested[1]) if tested else {"difference": metric.value - full.value}
                metrics[name]["paired"] = {key: numbers.get(key) for key in (*NUMBERS, "test")}
        self.points.append(
            {
                "dim": compression.dim or dim,
                "precision": compression.precision,
                "bytes": compression.size_in_bytes(dim),
                "metrics": metrics,
                "notices": [asdict(one) for one in outcome.notices if columns and one not in self.full.notices],
            }
        )

    def details(self) -> list[dict[str, Any]]:
        """Return the points as plain values."""
        tests = [one["paired"] for point in self.points for one in point["metrics"].values() if "paired" in one]
        tested = [test for test in tests if test["p_value"] is not None]
        for test, p_value in zip(tested, holm([test["p_value"] for test in tested]), strict=True):
            test["p_holm"] = p_value
        return self.points
