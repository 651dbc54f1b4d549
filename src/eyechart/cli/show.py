"""The table at the end of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from eyechart.io.cells import align, one_line
from eyechart.io.terminal import make_console

if TYPE_CHECKING:
    from eyechart.results import Result
    from eyechart.run import JobReport
    from eyechart.types import Metric

MOST = 200
"""Results in the table: nobody reads more on a terminal, and to lay out ten thousand takes half a minute."""
TEXT_METRICS = ("ndcg_at_10", "mrr_at_10", "map_at_10", "recall_at_1", "recall_at_5", "recall_at_10", "recall_at_100")


def show_reports(reports: Sequence[JobReport], *, quiet: bool) -> None:
    """Print results with intervals and chance, then what was noticed and what failed."""
    done = sorted(
        (report for report in reports if report.result or not report.error), key=lambda report: report.skipped
    )
    results = [report.result for report in done[:MOST] if report.result is not None]
    if quiet or not results:
        return
    console = make_console(soft_wrap=True)
    for line in result_lines(results):
        console.print(line, style="" if line.startswith("  ") else "bold")
    if len(done) > len(results):
        more = len(done) - len(results)
        console.print(f"and {more} more results: `eyechart build` and `eyechart report` show all of a folder")
    for line in dict.fromkeys(_notes(results)):
        console.print(line, style="yellow")


def show_profiles(results: Sequence[Result]) -> None:
    """Print where the time of each job went."""
    from rich.table import Table

    from eyechart.io.stopwatch import PHASES

    table = Table(box=None, pad_edge=False, header_style="bold", title="seconds", title_justify="left")
    for name in ("phase", *(f"{result.dataset} ({result.language})" for result in results)):
        table.add_column(one_line(name), justify="left" if name == "phase" else "right")
    for phase in (*PHASES, "total"):
        seconds = [result.provenance.get("profile", {}).get(phase) for result in results]
        if any(seconds):
            table.add_row(phase, *("" if value is None else f"{value:.3f}" for value in seconds))
    make_console().print(table)


def result_lines(results: Sequence[Result]) -> list[str]:
    """Lay out a heading per result and below it a line per metric; nothing is cut, however narrow the terminal is."""
    from eyechart.report.judges import judge_lines
    from eyechart.report.table import AS_WRONG, lost_samples

    shown = [(result, _brief(result)) for result in results]
    best = any(metric.best is not None for _, metrics in shown for metric in metrics.values())
    lost = any(metric.if_right is not None for _, metrics in shown for metric in metrics.values())
    more = [*(["best"] if best else []), "n", *(["lost: wrong - right"] if lost else []), ""]
    rows: list[tuple[str, ...]] = [("metric", "value", "95 % interval", "chance", *more)]
    for result, metrics in shown:
        fewer = ", ".join(text for text in lost_samples(result) if not text.startswith(AS_WRONG))
        for name, metric in metrics.items():
            interval = "" if metric.low is None else f"{metric.low:.4f} - {metric.high:.4f}"
            n = result.counts.get("scored", "") if metric.n is None else metric.n
            levels = (metric.chance, metric.best) if best else (metric.chance,)
            span = "" if metric.if_right is None else f"{_level(metric.if_wrong)} - {_level(metric.if_right)}"
            end = (str(n), span, fewer) if lost else (str(n), fewer)
            rows.append((name, f"{metric.value:.4f}", interval, *map(_level, levels), *end))
    aligned = (f"  {line}" for line in align(rows, texts=1))
    lines = [next(aligned)]
    for result, metrics in shown:
        lines += [_heading(result), *islice(aligned, len(metrics)), *(f"  {line}" for line in judge_lines(result))]
    return lines


def _heading(result: Result) -> str:
    pretrained = "" if result.pretrained in ("", result.model) else f" {result.pretrained}"
    return one_line(f"{result.model}{pretrained} on {result.dataset} ({result.language}, {result.task})")


def _level(level: float | None) -> str:
    return "" if level is None else f"{level:.4f}"


def _brief(result: Result) -> Mapping[str, Metric]:
    """Return the metrics to show: of text retrieval the main ones, the file has all of them."""
    chosen = [name for name in TEXT_METRICS if name in result.values] if result.task == "text_retrieval" else []
    return {name: result.values[name] for name in chosen} or result.values


def _notes(results: Sequence[Result]) -> Iterator[str]:
    for result in results:
        for notice in result.notices:
            yield f"note on {result.dataset}: {notice['message']}"
