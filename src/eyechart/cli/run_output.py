"""Output of a run: a line per finished job, then the table, the notes and the next command."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

from eyechart.io.stopwatch import JobClock, duration
from eyechart.io.terminal import make_console, translate, visible, width_of, wrap, write_message
from eyechart.io.text_tables import columns_of, lay_out, one_line
from eyechart.messages import UserMessage, join

if TYPE_CHECKING:
    from eyechart.results import Result
    from eyechart.run import JobReport


MOST = 200
"""Maximum number of results in the table; laying out ten thousand takes half a minute."""
TEXT_METRICS = ("ndcg_at_10", "mrr_at_10", "map_at_10", "recall_at_1", "recall_at_5", "recall_at_10", "recall_at_100")
RANKING_METRICS = ("ndcg@5", "ndcg@10", "map@10", "recall@1", "recall@5", "recall@10", "hit_rate@1", "main_score")
"""For MTEB, whose retrieval tasks have some 85 metrics per language."""
USUAL_LANGUAGE = "en"
WORTH_SAYING = 5.0
"""Remaining seconds below which no estimate is shown."""


MARGIN = "  "
HEADS = ("metric", "value", "95 % interval", "chance", "best", "n", "lost: wrong - right", "")
IF_ANY = (4, 6)
"""Columns that are omitted if empty."""


def job_line(report: JobReport, jobs: JobClock) -> str:
    """Format a finished job: its number, primary metrics and time, and the estimated time left."""
    from eyechart.results.views import with_unit

    job, result, left = report.job, report.result, jobs.left or 0
    language = "" if job.dataset.language == USUAL_LANGUAGE else f" ({job.dataset.language})"
    parts = []
    if result is not None:
        parts = [f"{name} {with_unit(result.values[name])}" for name in result.primary] or [job.task]
    if report.skipped or (result is None and not report.error):
        parts.append(UserMessage("skipped, done before"))
    elif result is not None and "seconds" in result.provenance:
        parts.append(duration(result.provenance["seconds"]))
    parts += [UserMessage("failed")] if report.error else []
    if left >= WORTH_SAYING and result is not None:
        parts.append(UserMessage("about {time} left", time=duration(left)))
    fields = {"model": job.label or job.model.label, "dataset": job.dataset.name + language, "parts": join(parts, ", ")}
    return UserMessage("{done}/{total} {model} on {dataset}: {parts}", done=jobs.done, total=jobs.total, **fields)


def show_reports(reports: Sequence[JobReport], *, quiet: bool, advise: bool = True) -> None:
    """Print results with intervals and chance levels; unless quiet, also notes and, as advice, the report command."""
    done = sorted(
        (report for report in reports if report.result or not report.error), key=lambda report: report.skipped
    )
    results = [report.result for report in done[:MOST] if report.result is not None]
    if not results:
        return
    width = width_of(sys.stdout)
    console = make_console(soft_wrap=True)
    for line in result_lines(results, width):
        console.print(line, style="" if line.startswith("  ") else "bold")
    for line in _verdict_lines(results, width):
        console.print(line)
    if quiet:
        return
    if more := len(done) - len(results):
        text = "and {n} more results: `eyechart build` and `eyechart report` show all results of a folder\n"
        write_message(text, sys.stdout, n=more)
    notes = (
        UserMessage("note on {name}: {reason}", name=result.dataset, reason=notice["message"])
        for result in results
        for notice in result.notices
    )
    for note in dict.fromkeys(notes):
        for line in wrap(visible(translate(note)), width):
            console.print(line, style="yellow")
    if not advise:
        return
    outputs = list(dict.fromkeys(report.job.output for report in done if report.job))
    folders = list(dict.fromkeys(f"{output.parent}/" for output in outputs))
    # A few results in the working folder are named one by one.
    sources = map(str, outputs) if folders == ["./"] and len(outputs) <= 3 else folders
    command = shlex.join(["eyechart", "report", *sources, "-o", "report.html"])
    if len(outputs) == 1:
        text = "The result is {path}. To see it: `{command}`\n"
        write_message(text, sys.stderr, path=outputs[0], command=command)
    else:
        text = "{n} results are in {folders}. To see them: `{command}`\n"
        write_message(text, sys.stderr, n=len(outputs), folders=", ".join(folders), command=command)


def _verdict_lines(results: Sequence[Result], width: int | None) -> list[str]:
    """Lay out models x benchmarks and the verdict in words; a single model has only what is not above chance."""
    from eyechart.report.compare_text import verdict_text
    from eyechart.report.loader import LoadedResult
    from eyechart.report.paired_records import RecordsCache
    from eyechart.report.result_table import make_table
    from eyechart.report.verdict import make_verdict

    table = make_table([LoadedResult(result) for result in results])
    verdict = make_verdict(RecordsCache(table, strict=False))
    if len(table.models) > 1:
        return ["", *verdict_text(table, verdict, width).splitlines(), ""]
    return [line for text in verdict.sentences for line in wrap(visible(translate(text)), width)]


def show_profiles(results: Sequence[Result]) -> None:
    """Print the timing breakdown of each job, in seconds."""
    from eyechart.io.stopwatch import PHASES

    profiles = [result.provenance.get("profile", {}) for result in results]
    phases = [phase for phase in (*PHASES, "total") if any(phase in profile for profile in profiles)]
    columns = columns_of("seconds", *phases, right=phases, below=phases[:-1])
    rows = [
        [_heading(result), *("" if phase not in profile else f"{profile[phase]:.3f}" for phase in phases)]
        for result, profile in zip(results, profiles, strict=True)
    ]
    lines = [line for part in lay_out(columns, rows, width_of(sys.stdout)) for line in part]
    write_message("".join(f"{line}\n" for line in lines), sys.stdout)


def result_lines(results: Sequence[Result], width: int | None = None) -> list[str]:
    """Lay out a heading per result and a line per metric; names are never truncated."""
    from eyechart.report.compression_curve import curve_lines
    from eyechart.report.judge_summary import judge_lines
    from eyechart.report.result_table import AS_WRONG, lost_samples
    from eyechart.results.views import level, with_unit

    counts, rows = [], []
    for result in results:
        chosen: Sequence[str] = TEXT_METRICS if result.task == "text_retrieval" else ()
        if result.task == "mteb" and not {"ndcg@10", "ndcg_at_10"}.isdisjoint(result.values):
            chosen = (
                (*result.primary, *RANKING_METRICS) if "ndcg@10" in result.values else (*TEXT_METRICS, "main_score")
            )
        metrics = {name: result.values[name] for name in chosen if name in result.values} or result.values
        counts.append(len(metrics))
        fewer = ", ".join(translate(text) for text in lost_samples(result) if not text.startswith(AS_WRONG))
        for name, metric in metrics.items():
            interval = "" if metric.low is None else f"{level(metric, metric.low)} - {level(metric, metric.high)}"
            n = result.counts.get("scored", "") if metric.n is None else metric.n
            lost = ""
            if metric.best_case is not None:
                lost = f"{level(metric, metric.worst_case)} - {level(metric, metric.best_case)}"
            levels = (level(metric, metric.chance), level(metric, metric.best))
            rows.append((name, with_unit(metric), interval, *levels, str(n), lost, fewer))
    used = [i for i in range(len(HEADS)) if i not in IF_ANY or any(row[i] for row in rows)]
    heads = [HEADS[i] for i in used]
    columns = columns_of(*heads, right=heads[1:-1], below=heads[2:])
    inner = None if width is None else width - len(MARGIN)
    head, *laid_out = lay_out(columns, [[row[i] for i in used] for row in rows], inner)
    left = iter(laid_out)
    lines = [f"{MARGIN}{line}" for line in head]
    for result, count in zip(results, counts, strict=True):
        lines += wrap(visible(_heading(result)), width, indent=MARGIN)
        lines += [f"{MARGIN}{line}" for row in islice(left, count) for line in row]
        lines += [f"{MARGIN}{line}" for line in curve_lines(result, inner)]
        lines += [line for text in judge_lines(result) for line in wrap(f"{MARGIN}{translate(text)}", width)]
    return lines


def _heading(result: Result) -> str:
    pretrained = "" if result.pretrained in ("", result.model) else f" {result.pretrained}"
    model, how = f"{result.model}{pretrained}", f"{result.language}, {result.task}"
    heading = UserMessage("{model} on {dataset} ({how})", model=model, dataset=result.dataset, how=how)
    return one_line(translate(heading))
