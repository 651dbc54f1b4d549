"""Results for people: numbers as per cent or plain, lines, tables, data frames and plots."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from html import escape
from typing import TYPE_CHECKING, Any

from eyechart.errors import UsageError, import_extra, unknown_name
from eyechart.io.terminal import width_of
from eyechart.io.text_tables import columns_of, lay_out, one_line
from eyechart.messages import UserMessage
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


MINUS = "\N{MINUS SIGN}"


def real_minus(text: str) -> str:
    """Replace hyphens before digits by minus signs."""
    return re.sub(r"(?<![\w.])-(?=\.?\d)", MINUS, text)


def spread(metric: Any, digits: int = 1, *, percent: bool = True) -> str:
    """Format the reach of an interval: ``±2.6`` if both sides read the same, else ``-39.7 +0.0``; "" without one."""
    if metric.low is None or metric.high is None:
        return ""
    below, above = (
        shown(max(0.0, side), digits, percent=percent)
        for side in (metric.value - metric.low, metric.high - metric.value)
    )
    return f"±{above}" if below == above else f"{MINUS}{below} +{above}"


def level(metric: Metric, value: float | None) -> str:
    """Format a metric's value, an end of its interval or its chance level in the unit of the metric; "" for None."""
    if value is None:
        return ""
    return fixed(100 * value, 2) if is_fraction(metric) else fixed(value, FINE)


def with_unit(metric: Metric, value: float | None = None) -> str:
    """Format a metric's value, or another value in its unit, with the unit."""
    return f"{level(metric, metric.value if value is None else value)}{' %' if is_fraction(metric) else ''}"


def spent_lines(details: Mapping[str, Any]) -> list[str]:
    """Describe the usage of the model and of each judge: of the whole benchmark, cached answers included, and new.

    Models without any usage are omitted.
    """
    spent, lines = details.get("spent", {}), list[str]()
    parts = {"model": spent.get("model", {}), **spent.get("judges", {})}
    for name, part in parts.items():
        tokens, currency = part.get("tokens_of_answers") or {}, one_line(str(part.get("currency", "")))
        if not tokens and not part.get("requests"):
            continue
        new: str = "nothing, all is cached"
        if part.get("requests"):
            used = _tokens(part, part.get("cost"), currency)
            new = UserMessage("requests {n}, {tokens}", n=f"{part['requests']:,}", tokens=used)
        elif part.get("asked"):  # generated on this machine
            new = UserMessage("answers {n}", n=f"{part['asked']:,}")
        text = "{name}: whole benchmark: answers {answers}, {every}; new in this run: {new}"
        every = _tokens(tokens, part.get("cost_of_answers"), currency)
        answers = f"{part.get('answers', 0):,}"
        lines.append(UserMessage(text, name=one_line(name), answers=answers, every=every, new=new))
    if any(part.get("unpriced") for part in parts.values()):
        lines.append(UserMessage("For the cost, give the prices of tokens: {--prices=FILE}."))
    return lines


def _tokens(counts: Mapping[str, Any], cost: float | None, currency: str) -> UserMessage:
    known = {name: f"{counts.get(f'{name}_tokens') or 0:,}" for name in ("prompt", "completion")}
    if cost is None:
        return UserMessage("prompt tokens {prompt}, completion tokens {completion}", **known)
    text = "prompt tokens {prompt}, completion tokens {completion}, cost {cost} {currency}"
    return UserMessage(text, **known, cost=f"{cost:,.4f}", currency=currency)


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
    return "\n".join([*lines, *([UserMessage("and {n} more results", n=more)] if more > 0 else [])])


def result_html(result: ResultFields) -> str:
    """Build an HTML table of all metrics of a result, with its notices below."""
    rows = [_cells(name, metric) for name, metric in result.values.items()]
    notices = "".join(f"<li>{escape(str(notice.get('message', '')))}</li>" for notice in result.notices)
    notes = f"<ul>{notices}</ul>" if notices else ""
    return f"<div><b>{escape(_title(result))}</b>{html_table(HEADER, rows)}{notes}</div>"


def results_html(results: Results) -> str:
    """Build an HTML table of the primary metrics of results."""
    more = len(results) - SHOWN
    return html_table(TABLE, _rows(results)) + (
        f"<p>{UserMessage('and {n} more results', n=more)}</p>" if more > 0 else ""
    )


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
            frame.insert(place, named, [class_names(value, names) for value in frame[column]])
    return frame


def class_names(value: Any, names: Sequence[str]) -> Any:
    """Return the name of a class, or those of several; None for an index out of range."""
    if isinstance(value, list):
        return [class_names(one, names) for one in value]
    return names[value] if isinstance(value, int) and 0 <= value < len(names) else None


WIDTH = 3.4
"""Width of a plot in inches: one column of a two-column paper."""


def plot_results(results: Results, metrics: str | Sequence[str] | None, ax: Any) -> Any:
    """Plot values with intervals and chance levels, grouped by benchmark and metric, a colour per model.

    By default, all fractions of a single result or the primary metrics of several, on new axes as wide as a column of a
    paper.
    """
    chosen = _chosen(results, metrics)
    if not chosen:
        raise UsageError("There is no metric to plot.", advice="Name metrics explicitly: metrics=[...].")
    tasks = Counter(plain for plain, _ in {(_plain(result), result.task) for result, _ in chosen})
    models: dict[str, int] = {}
    groups: dict[tuple[str, str], dict[str, Metric]] = {}
    for result, name in chosen:
        title = f"{plain} [{result.task}]" if tasks[plain := _plain(result)] > 1 else plain
        runs, model, again = groups.setdefault((title, name), {}), model_of(result), 1
        while (own := model if again == 1 else f"{model} ({again})") in runs:  # the same model in other settings
            again += 1
        runs[own] = result.values[name]
        models.setdefault(own, len(models))
    percent = all(is_fraction(result.values[name]) for result, name in chosen)
    scale, step = 100 if percent else 1, 0.8 / len(models)
    if new := ax is None:
        # pyplot registers the figure, so that a notebook displays it.
        pyplot = import_extra("matplotlib.pyplot", "plot")
        height = 1.0 + len(groups) * max(0.3, 0.13 * len(models)) + (0.16 * len(models) if len(models) > 1 else 0)
        ax = pyplot.subplots(figsize=(WIDTH, height), layout="constrained")[1]
    drawn, chances = dict[int, Any](), list[Any]()
    for place, runs in enumerate(groups.values()):
        for i, metric in ((models[own], metric) for own, metric in runs.items()):
            y, color = place + (i - (len(models) - 1) / 2) * step, f"C{i % 10}"
            ends = [scale * (metric.value if end is None else end) for end in (metric.low, metric.high)]
            ax.plot(ends, [y, y], color=color, linewidth=1.5, alpha=0.6)
            (drawn[i],) = ax.plot([scale * metric.value], [y], "o", color=color, markersize=4)
            if metric.chance is not None:
                x, half = scale * metric.chance, step / 2
                chances = ax.plot([x, x], [y - half, y + half], color="0.4", linewidth=1, linestyle=":")
    names = [*map(_no_formula, models)] + ["chance"] * len(chances)
    handles = [*(drawn[i] for i in sorted(drawn)), *chances]
    titles = {title for title, _ in groups}
    ax.set_title(f"{len(titles)} benchmarks" if len(titles) > 1 else _no_formula(*titles), fontsize=9)
    ax.set_yticks(range(len(groups)), [_no_formula("\n".join(own[len(titles) == 1 :])) for own in groups], fontsize=7)
    ax.tick_params(axis="x", labelsize=7)
    ax.set_ylim(len(groups) - 0.5, -0.5)
    if percent:
        ax.set_xlim(-2, 102)
    ax.set_xlabel(f"{'per cent' if percent else 'value'}, with 95 % intervals", fontsize=8)
    ax.grid(axis="x", alpha=0.3)
    where = {"loc": "outside lower center", "ncols": 1 + (len(models) > 6)} if new else {"loc": "best"}
    (ax.figure if new else ax).legend(handles, names, fontsize=7, frameon=False, **where)
    return ax


def _plain(result: ResultFields) -> str:
    return result.dataset if result.language == "en" else f"{result.dataset} ({result.language})"


def _no_formula(text: str) -> str:
    return text.replace("$", r"\$")


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
