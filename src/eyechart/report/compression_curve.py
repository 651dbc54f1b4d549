"""Metrics of compressed vectors next to those of the full ones, with paired differences on the same samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from itertools import chain
from typing import Any

from eyechart.io.terminal import translate, wrap
from eyechart.io.text_tables import columns_of, lay_out
from eyechart.messages import UserMessage
from eyechart.metrics.compression import Compression
from eyechart.report.compare_text import p_text
from eyechart.report.paired_records import compare_records
from eyechart.report.record_columns import as_columns
from eyechart.results import Result
from eyechart.results.views import is_fraction, level
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


COLUMNS = columns_of(
    *("dimensions", "precision", "bytes", "value", "change", "95 % interval", "p (Holm)"),
    right=("dimensions", "bytes", "value", "change", "95 % interval", "p (Holm)"),
    below=("95 % interval", "p (Holm)"),
)


def curve_lines(result: Result, width: int | None = None) -> list[str]:
    """Lay out the primary metrics of the compressed vectors; nothing if a result has none."""
    points = result.details.get("compression", ())
    lines = []
    for name in points[0]["metrics"] if points else ():
        metric = result.values[name]
        text = "{metric} of compressed vectors; change: to the full vectors on the same samples"
        lines += wrap(translate(UserMessage(text, metric=name)), width)
        rows = [_cells(point, metric, point["metrics"][name]) for point in points]
        lines += chain.from_iterable(lay_out(COLUMNS, rows, width))
    return lines


def _cells(point: Mapping[str, Any], metric: Metric, own: Mapping[str, Any]) -> list[str]:
    paired = own.get("paired", {})
    scale, digits = (100, 2) if is_fraction(metric) else (1, 4)
    change, (low, high) = paired.get("difference"), (paired.get(key) for key in ("low", "high"))
    return [
        str(point["dim"]),
        point["precision"],
        str(point["bytes"]),
        level(metric, own["value"]),
        "" if change is None else f"{scale * change:+.{digits}f}",
        "" if low is None or high is None else f"[{scale * low:+.{digits}f}, {scale * high:+.{digits}f}]",
        "" if paired.get("p_holm") is None else p_text(paired["p_holm"]),
    ]
