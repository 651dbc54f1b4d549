"""Metrics of compressed vectors next to those of the full ones, with paired differences on the same samples."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from itertools import chain
from typing import Any

from eyechart.io.terminal import translate, wrap
from eyechart.io.text_tables import columns_of, lay_out
from eyechart.messages import UserMessage
from eyechart.report.compare_text import p_text
from eyechart.report.paired_records import compare_records
from eyechart.report.record_columns import as_columns
from eyechart.results import Result
from eyechart.results.views import is_fraction, level
from eyechart.stats import holm
from eyechart.types import Outcome, RecordForm

PAIRED = ("difference", "low", "high", "p_value", "test")
COLUMNS = columns_of(
    *("dimensions", "precision", "bytes", "value", "change", "95 % interval", "p (Holm)"),
    right=("dimensions", "bytes", "value", "change", "95 % interval", "p (Holm)"),
    below=("95 % interval", "p (Holm)"),
)


def compare_compressions(
    full: Outcome, points: Iterable[tuple[Mapping[str, Any], Outcome]], quoted: str, form: RecordForm
) -> list[dict[str, Any]]:
    """Return the primary metrics (or the quoted one) of vectors by dimension, precision and bytes.

    A difference is a point's metric minus that of the full vectors. ``p_holm`` is adjusted by Holm's method over all
    points and metrics.
    """
    names = [name for name, metric in full.metrics.items() if metric.primary] or list(full.metrics)[:1]
    before, found, tests = as_columns(full, form), [], []
    for vectors, outcome in points:
        metrics: dict[str, dict[str, Any]] = {}
        after = before if outcome is full else as_columns(outcome, form)
        for name in [quoted] if quoted in full.metrics else names:
            old, new = full.metrics[name], outcome.metrics[name]
            metrics[name] = {"value": new.value, "low": new.low, "high": new.high}
            if outcome is not full:
                tested = compare_records((old, before), (new, after))
                numbers = asdict(tested[1]) if tested else {"difference": new.value - old.value}
                metrics[name]["paired"] = {key: numbers.get(key) for key in PAIRED}
                tests += [metrics[name]["paired"]] if tested and tested[1].p_value is not None else []
        notices = [asdict(notice) for notice in outcome.notices if notice not in full.notices]
        found.append({**vectors, "metrics": metrics, "notices": notices})
    for test, p_value in zip(tests, holm([test["p_value"] for test in tests]), strict=True):
        test["p_holm"] = p_value
    return found


def curve_lines(result: Result, width: int | None = None) -> list[str]:
    """Lay out the metrics of the compressed vectors, if a result has any."""
    points = result.details.get("compression", ())
    lines = []
    for name in points[0]["metrics"] if points else ():
        text = "{metric} of compressed vectors; change: to the full vectors on the same samples"
        lines += wrap(translate(UserMessage(text, metric=name)), width)
        metric, rows = result.values[name], []
        scale, digits = (100, 2) if is_fraction(metric) else (1, 4)
        for point in points:
            own = point["metrics"][name]
            change, low, high, p = (own.get("paired", {}).get(key) for key in ("difference", "low", "high", "p_holm"))
            row = [*(str(point[key]) for key in ("dim", "precision", "bytes")), level(metric, own["value"])]
            row.append("" if change is None else f"{scale * change:+.{digits}f}")
            ends = None if low is None or high is None else [f"{scale * end:+.{digits}f}" for end in (low, high)]
            rows.append([*row, f"[{', '.join(ends)}]" if ends else "", "" if p is None else p_text(p)])
        lines += chain.from_iterable(lay_out(COLUMNS, rows, width))
    return lines
