"""Results for people: numbers as per cent or plain, lines, tables, data frames and plots."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from html import escape
from typing import TYPE_CHECKING, Any

from eyechart.errors import UsageError, import_extra, unknown_name
from eyechart.io.terminal import width_of
from eyechart.io.text_tables import columns_of, lay_out, one_line
from eyechart.results.fields import IDENTITY, ResultFields
from eyechart.results.files import record_blocks
from eyechart.types import Metric

if TYPE_CHECKING:
    import pandas as pd


_EXACT = Context(prec=400)
"""Enough digits for any float."""
FINE = 4
"""Digits of a number that is not a per cent, in tables that show per cent with two."""


def is_fraction(metric: Metric) -> bool:
    """Whether a number is displayed as per cent: a fraction that is not marked as points."""
    return not metric.points and 0 <= metric.value <= 1


def fixed(value: float, digits: int) -> str:
    """Format a number with fixed digits; halves round up, as in JavaScript, so that the page shows the same."""
    return str(Decimal(value).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP, _EXACT))


def shown(value: float, digits: int = 1, *, percent: bool = True) -> str:
    """Format a number, a fraction as per cent."""
    return fixed(100 * value if percent else value, digits)


def spread(metric: Metric, digits: int = 1, *, percent: bool = True) -> str:
    """Format the reach of an interval: ``±2.6`` if both sides read the same, else ``-39.7 +0.0``; "" without one."""
    if metric.low is None or metric.high is None:
        return ""
    below, above = (
        shown(max(0.0, side), digits, percent=percent)
        for side in (metric.value - metric.low, metric.high - metric.value)
    )
    return f"±{above}" if below == above else f"-{below} +{above}"


def level(metric: Metric, value: float | None) -> str:
    """Format a metric's value, an end of its interval or its chance level in the unit of the metric; "" for None."""
    if value is None:
        return ""
    return fixed(100 * value, 2) if is_fraction(metric) else fixed(value, FINE)


def with_unit(metric: Metric, value: float | None = None) -> str:
    """Format a metric's value, or another value in its unit, with the unit."""
    return f"{level(metric, metric.value if value is None else value)}{' %' if is_fraction(metric) else ''}"


_COUNTS = ("requests", "prompt_tokens", "completion_tokens")


def spent_lines(details: Mapping[str, Any]) -> list[str]:
    """Format ``details.spent`` of the model and of each judge; models without usage are omitted."""
    spent = details.get("spent", {})
    lines = []
    for name, part in {"model": spent.get("model", {}), **spent.get("judges", {})}.items():
        # The usage of this run; if all answers were cached, the tokens that they cost originally.
        counts = part if part.get("requests") else part.get("tokens_of_answers", {})
        words = [f"{counts[count]:,} {count.replace('_', ' ')}" for count in _COUNTS if counts.get(count)]
        if not words:
            continue
        if "cost" in part:
            words.append(f"{part['cost']:,.4f} {part['currency']}")
        stored = f" ({part['from_store']:,} answers were stored before)" if part.get("from_store") else ""
        lines.append(f"{name}: {', '.join(words)}{stored}")
    return lines


# Views of results in Python: text, HTML, pandas data frames, matplotlib plots.


Results = Sequence[ResultFields]
HEADER = ("metric", "value", "95 % interval", "chance", "n")
TABLE = ("model", "benchmark", *HEADER)
COLUMNS = columns_of(*TABLE, right=HEADER[1:], below=HEADER[2:])
SHOWN = 100
"""Maximal number of results in a table."""
METRIC_COLUMNS = (*IDENTITY, "metric", "value", "low", "high", "chance", "n", "lower_is_better", "primary")
CLASS_COLUMNS = {"label": "label_name", "prediction": "prediction_name", "labels": "label_names", "top": "top_names"}
"""Columns of records that hold class indices -> columns for their names."""
FORMS = ("label", "labels")
"""The record forms with class indices; in others ``top`` holds ids."""


def one_line_of(result: ResultFields) -> str:
    """Format a result on one line: model, benchmark and primary metrics."""
    texts = []
    for name in primary_of(result):
        metric = result.values[name]
        interval = "" if metric.low is None else f" [{level(metric, metric.low)}, {level(metric, metric.high)}]"
        texts.append(f"{name} {with_unit(metric)}{interval}" + (f", n={metric.n}" if metric.n is not None else ""))
    return f"<Result {one_line(_title(result))}: {one_line(', '.join(texts)) or 'no metrics'}>"


def table_of(results: Results) -> str:
    """Lay out the primary metrics of results in the width of the terminal."""
    lines = [line for row in lay_out(COLUMNS, _rows(results), width_of(sys.stdout)) for line in row]
    more = len(results) - SHOWN
    return "\n".join([*lines, *([f"and {more} more results"] if more > 0 else [])])


def result_html(result: ResultFields) -> str:
    """Build an HTML table of all metrics of a result, with its notices below."""
    rows = [_cells(name, metric) for name, metric in result.values.items()]
    notices = "".join(f"<li>{escape(str(notice.get('message', '')))}</li>" for notice in result.notices)
    notes = f"<ul>{notices}</ul>" if notices else ""
    return f"<div><b>{escape(_title(result))}</b>{html_table(HEADER, rows)}{notes}</div>"


def results_html(results: Results) -> str:
    """Build an HTML table of the primary metrics of results."""
    more = len(results) - SHOWN
    return html_table(TABLE, _rows(results)) + (f"<p>and {more} more results</p>" if more > 0 else "")


def html_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Build an HTML table; cells are escaped."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _title(result: ResultFields) -> str:
    return f"{model_of(result)} on {_benchmark(result)}"


def model_of(result: ResultFields) -> str:
    """Return the name of the model with its weights."""
    return result.model if result.pretrained in ("", result.model) else f"{result.model} {result.pretrained}"


def primary_of(result: ResultFields) -> tuple[str, ...]:
    """Return the names of the primary metrics of a result; the first metric, if it has none."""
    return result.primary or tuple(result.values)[:1]


def _rows(results: Results) -> list[tuple[str, ...]]:
    return [
        (model_of(result), _benchmark(result), *_cells(name, result.values[name]))
        for result in results[:SHOWN]
        for name in primary_of(result)
    ]


def _benchmark(result: ResultFields) -> str:
    return f"{result.dataset} ({result.language}, {result.task})"


def _cells(name: str, metric: Metric) -> tuple[str, ...]:
    interval = "" if metric.low is None else f"{level(metric, metric.low)} - {level(metric, metric.high)}"
    chance = level(metric, metric.chance)
    return (name, with_unit(metric), interval, chance, "" if metric.n is None else str(metric.n))


def metric_frame(results: Results) -> pd.DataFrame:
    """Build a data frame with a row per metric and result."""
    rows = [
        {
            **dict(zip(IDENTITY, result.identity, strict=True)),
            "metric": name,
            **{key: getattr(metric, key) for key in METRIC_COLUMNS[len(IDENTITY) + 1 :]},
        }
        for result in results
        for name, metric in result.values.items()
    ]
    return import_extra("pandas", "pandas").DataFrame(rows, columns=list(METRIC_COLUMNS))


def record_frame(result: ResultFields) -> pd.DataFrame:
    """Build a data frame with a row per record, with class names."""
    frame = import_extra("pandas", "pandas").DataFrame([record for block in record_blocks(result) for record in block])
    names = result.details.get("classnames")
    if result.record_info.get("form") not in FORMS or not isinstance(names, Sequence):
        return frame
    for column, named in CLASS_COLUMNS.items():
        if column in frame:
            place = list(frame.columns).index(column) + 1
            frame.insert(place, named, [_named(value, names) for value in frame[column]])
    return frame


def _named(value: Any, names: Sequence[str]) -> Any:
    """Return the name of a class, or of several; None for an index out of range."""
    if isinstance(value, list):
        return [_named(one, names) for one in value]
    return names[value] if isinstance(value, int) and 0 <= value < len(names) else None


def plot_results(results: Results, metrics: str | Sequence[str] | None, ax: Any) -> Any:
    """Plot a line for each metric of each result: the value, its interval, and a tick at chance.

    Args:
        results: The results.
        metrics: Names of metrics; by default all fractions of a single result, or the primary ones of several.
        ax: Axes to draw on; by default new ones.

    Raises:
        UsageError: If no result has such a metric.
    """
    several_languages = len({result.language for result in results}) > 1
    rows = []
    for result, name in _chosen(results, metrics):
        language = f" ({result.language})" if several_languages else ""
        label = name if len(results) == 1 else f"{model_of(result)} on {result.dataset}{language}: {name}"
        rows.append((label.replace("$", r"\$"), result.values[name]))  # a dollar sign would start a formula
    if not rows:
        raise UsageError("There is no metric to plot.", advice="Name metrics explicitly: metrics=[...].")
    if ax is None:
        # pyplot registers the figure, so that a notebook displays it.
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


def _chosen(results: Results, metrics: str | Sequence[str] | None) -> list[tuple[ResultFields, str]]:
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
