"""Results for people who look at them in Python: a line, a table of text, or a table of HTML."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from html import escape

from eyechart.io.cells import one_line
from eyechart.io.layout import columns_of, lay_out
from eyechart.io.terminal import width_of
from eyechart.results.numbers import level, with_unit
from eyechart.results.result import Result
from eyechart.types import Metric

HEADER = ("metric", "value", "95 % interval", "chance", "n")
TABLE = ("model", "benchmark", *HEADER)
COLUMNS = columns_of(*TABLE, right=HEADER[1:], below=HEADER[2:])
SHOWN = 100
"""Results in a table: nobody reads more."""


def one_line_of(result: Result) -> str:
    """Write a result on one line: whose, on what, and its primary metrics."""
    said = ", ".join(_said(name, result.values[name]) for name in primary_of(result))
    return f"<Result {one_line(title_of(result))}: {one_line(said) or 'no metrics'}>"


def table_of(results: Sequence[Result]) -> str:
    """Lay out the primary metrics of results, as wide as the terminal is."""
    lines = [line for row in lay_out(COLUMNS, _rows(results), width_of(sys.stdout)) for line in row]
    more = len(results) - SHOWN
    return "\n".join([*lines, *([f"and {more} more results"] if more > 0 else [])])


def result_html(result: Result) -> str:
    """Make a table of all metrics of a result, and below it what was noticed."""
    rows = [_cells(name, metric) for name, metric in result.values.items()]
    notices = "".join(f"<li>{escape(str(notice.get('message', '')))}</li>" for notice in result.notices)
    notes = f"<ul>{notices}</ul>" if notices else ""
    return f"<div><b>{escape(title_of(result))}</b>{html_table(HEADER, rows)}{notes}</div>"


def results_html(results: Sequence[Result]) -> str:
    """Make a table of the primary metrics of results."""
    more = len(results) - SHOWN
    return html_table(TABLE, _rows(results)) + (f"<p>and {more} more results</p>" if more > 0 else "")


def html_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Make a table; whatever stands in a cell is text."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def title_of(result: Result) -> str:
    """Say whose result it is, and of what."""
    return f"{model_of(result)} on {_benchmark(result)}"


def model_of(result: Result) -> str:
    """Name the model with its weights."""
    return result.model if result.pretrained in ("", result.model) else f"{result.model} {result.pretrained}"


def primary_of(result: Result) -> tuple[str, ...]:
    """Name the metrics that stand for a result; the first, if it names none."""
    return result.primary or tuple(result.values)[:1]


def _rows(results: Sequence[Result]) -> list[tuple[str, ...]]:
    return [
        (model_of(result), _benchmark(result), *_cells(name, result.values[name]))
        for result in results[:SHOWN]
        for name in primary_of(result)
    ]


def _benchmark(result: Result) -> str:
    return f"{result.dataset} ({result.language}, {result.task})"


def _said(name: str, metric: Metric) -> str:
    interval = "" if metric.low is None else f" [{level(metric, metric.low)}, {level(metric, metric.high)}]"
    return f"{name} {with_unit(metric)}{interval}" + (f", n={metric.n}" if metric.n is not None else "")


def _cells(name: str, metric: Metric) -> tuple[str, ...]:
    interval = "" if metric.low is None else f"{level(metric, metric.low)} - {level(metric, metric.high)}"
    chance = level(metric, metric.chance)
    return (name, with_unit(metric), interval, chance, "" if metric.n is None else str(metric.n))
