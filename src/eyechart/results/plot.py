"""Results as plots of matplotlib: values with their intervals, and what chance gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eyechart.errors import UsageError, import_extra, unknown_name
from eyechart.results.numbers import is_fraction
from eyechart.results.result import Result
from eyechart.results.show import model_of


def plot_results(results: Sequence[Result], metrics: str | Sequence[str] | None, ax: Any) -> Any:
    """Draw a line for each metric of each result: a dot, its interval, and a tick where chance is.

    Args:
        results: What to draw.
        metrics: Names of metrics; by default all that are fractions of one result, or the primary ones of several.
        ax: Axes to draw on; by default new ones.

    Raises:
        UsageError: If no result has such a metric.
    """
    rows = [(_label(result, name, results), result.values[name]) for result, name in _chosen(results, metrics)]
    if not rows:
        raise UsageError("There is no metric to draw.", advice="Name some: metrics=[...].")
    if ax is None:
        # By pyplot, whose figures a notebook shows by itself.
        pyplot = import_extra("matplotlib.pyplot", "plot")
        ax = pyplot.subplots(figsize=(7, 1 + 0.4 * len(rows)), layout="constrained")[1]
    percent = all(is_fraction(metric) for _, metric in rows)
    scale = 100 if percent else 1
    for place, (_, metric) in enumerate(rows):
        ends = [scale * (metric.value if end is None else end) for end in (metric.low, metric.high)]
        ax.plot(ends, [place, place], color="C0", linewidth=2, alpha=0.6)
        ax.plot([scale * metric.value], [place], "o", color="C0")
        if metric.chance is not None:
            ax.plot([scale * metric.chance], [place], "|", color="0.4", markersize=12)
    ax.set_yticks(range(len(rows)), [label for label, _ in rows])
    ax.invert_yaxis()
    if percent:
        ax.set_xlim(0, 100)
    ax.set_xlabel(f"{'per cent' if percent else 'value'}, 95 % interval; | chance")
    ax.grid(axis="x", alpha=0.3)
    return ax


def _chosen(results: Sequence[Result], metrics: str | Sequence[str] | None) -> list[tuple[Result, str]]:
    known = {name for result in results for name in result.values}
    if metrics is not None:
        wanted = [metrics] if isinstance(metrics, str) else list(metrics)
        for name in wanted:
            if name not in known:
                raise unknown_name("metric", name, known)
        return [(result, name) for result in results for name in wanted if name in result.values]
    if len(results) == 1:
        (result,) = results
        return [(result, name) for name, metric in result.values.items() if is_fraction(metric)]
    return [(result, name) for result in results for name in result.primary]


def _label(result: Result, metric: str, results: Sequence[Result]) -> str:
    # A dollar sign would begin a formula.
    language = f" ({result.language})" if len({one.language for one in results}) > 1 else ""
    name = metric if len(results) == 1 else f"{model_of(result)} on {result.dataset}{language}: {metric}"
    return name.replace("$", r"\$")
