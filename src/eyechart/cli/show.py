"""The table at the end of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from eyechart.io.cells import one_line
from eyechart.io.terminal import make_console

if TYPE_CHECKING:
    from rich.table import Table

    from eyechart.results import Result
    from eyechart.run import JobReport

MOST = 200
"""Results in the table: nobody reads more on a terminal, and to lay out ten thousand takes half a minute."""
TEXT_METRICS = ("ndcg_at_10", "mrr_at_10", "map_at_10", "recall_at_1", "recall_at_5", "recall_at_10", "recall_at_100")


def show_reports(reports: Sequence[JobReport], *, quiet: bool) -> None:
    """Print results with intervals and chance, then what was noticed and what failed."""
    new_first = sorted(reports, key=lambda report: report.skipped)
    results = [report.result for report in new_first if report.result is not None]
    if quiet or not results:
        return
    more = len(results) - MOST
    results = results[:MOST]
    console = make_console()
    if not console.is_terminal:
        console = make_console(width=120)
    console.print(result_table(results))
    if more > 0:
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


def result_table(results: Sequence[Result]) -> Table:
    """Lay out one row per metric."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("model", overflow="fold")
    for name in ("dataset", "language", "metric"):
        table.add_column(name)
    for name in ("value", "95 % interval", "chance", "n"):
        table.add_column(name, justify="right")
    last = None
    for result in results:
        if last is not None:
            table.add_section()
        for i, (name, value) in enumerate(_brief(result).items()):
            low_high = result.intervals.get(name)
            chance = result.chance.get(name)
            heads = (result.model, result.dataset, result.language) if i == 0 else ("", "", "")
            table.add_row(
                *map(one_line, heads),
                one_line(name),
                Text(f"{value:.4f}", style="bold"),
                f"{low_high[0]:.4f} - {low_high[1]:.4f}" if low_high else "",
                f"{chance:.4f}" if chance is not None else "",
                str(result.counts.get("scored", "")) if i == 0 else "",
            )
        last = result
    return table


def _brief(result: Result) -> dict[str, float]:
    """Return the metrics to show: of text retrieval the main ones, the file has all of them."""
    chosen = [name for name in TEXT_METRICS if name in result.metrics] if result.task == "text_retrieval" else []
    return {name: result.metrics[name] for name in chosen} or result.metrics


def _notes(results: Sequence[Result]) -> Iterator[str]:
    for result in results:
        for notice in result.notices:
            yield f"note on {result.dataset}: {notice['message']}"
