"""Comparisons, rankings and leaderboard positions as plain text for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from itertools import chain
from typing import Any

from eyechart.io.terminal import translate, wrap
from eyechart.io.text_tables import columns_of, lay_out, one_line
from eyechart.messages import UserMessage
from eyechart.report.collection_means import collection_means
from eyechart.report.comparison import Difference, PairwiseComparison, SuiteRanking
from eyechart.report.leaderboard import LeaderboardPosition, PublishedRank
from eyechart.report.paired_records import LEVEL
from eyechart.report.result_table import Column, ResultTable
from eyechart.report.table_formats import metric_label

COLUMNS = columns_of(
    *("benchmark", "metric", "A", "B", "B - A", "95 % interval", "n", "only A/B", "p (Holm)", "detectable", ""),
    right=("A", "B", "B - A", "95 % interval", "n", "only A/B", "p (Holm)", "detectable"),
    below=("95 % interval", "n", "only A/B", "p (Holm)", "detectable"),
)


def comparison_text(table: ResultTable, comparison: PairwiseComparison, width: int | None = None) -> str:
    """Lay out one comparison, in per cent and percentage points."""
    notes = [
        *_notes(comparison.lines, comparison.tests),
        *(
            UserMessage("{name}: both models have results, but no records of the same samples.", name=name)
            for name in comparison.unpaired
        ),
    ]
    lines = [
        f"A = {one_line(table.models[comparison.first].label)}",
        f"B = {one_line(table.models[comparison.second].label)}",
        "",
        *chain.from_iterable(lay_out(COLUMNS, [_row(table, line) for line in comparison.lines], width)),
        "",
        *_wrapped(notes, width),
    ]
    return "\n".join(lines) + "\n"


def ranking_text(table: ResultTable, ranking: SuiteRanking, width: int | None = None) -> str:
    """Lay out the rank intervals, best mean first."""
    rows = []
    scale = 100 if ranking.in_per_cent else 1
    for model, mean, (low, high) in zip(ranking.models, ranking.means, ranking.ranks, strict=True):
        rank = str(low) if low == high else f"{low}-{high}"
        rows.append((rank, f"{scale * mean:.1f}", table.models[model].label))
    head = UserMessage(
        "Ranks over {n} benchmarks (simultaneous {level:.0f} % intervals):",
        n=len(ranking.benchmarks),
        level=100 * LEVEL,
    )
    ranked = {table.benchmarks[b].label for b in ranking.benchmarks}
    left = [
        f"{name.label} [{name.task}]" if name.label in ranked else name.label  # another task on the same data
        for b, name in enumerate(table.benchmarks)
        if b not in ranking.benchmarks
    ]
    notes = ["", UserMessage("Not in these ranks: {names}.", names=one_line(", ".join(left)))] if left else []
    laid_out = lay_out(columns_of("rank", "mean", "model", right=("mean",), wraps=True), rows, width)
    lines = [*_wrapped([head, ""], width), *chain.from_iterable(laid_out), *_wrapped(notes, width)]
    return "\n".join(lines) + "\n"


def collections_text(table: ResultTable, width: int | None = None) -> list[str]:
    """Lay out the means over collections, and by what their benchmarks measure."""
    parts = []
    for one in (one for one in collection_means(table) if one.notable):
        models = [m for m, value in enumerate(one.values) if value is not None]
        letters = columns_of("mean of", *(one_line(table.models[m].label) for m in models))
        rows = [
            (name, *("" if (value := values[m]) is None else f"{100 * value:.1f}" for m in models))
            for name, values in ((one.name, one.values), *one.groups.items())
        ]
        laid_out = chain.from_iterable(lay_out(letters, rows if models else [], width))
        parts.append("\n".join([*(laid_out if models else ()), "", *_wrapped(one.notes, width)]) + "\n")
    return parts


def _wrapped(texts: Iterable[str], width: int | None) -> list[str]:
    """Translate texts and break them into lines."""
    return [line for text in texts for line in wrap(translate(text), width)]


def _row(table: ResultTable, line: Difference) -> tuple[str, ...]:
    paired = line.paired
    column = Column(table.benchmarks.index(line.benchmark), line.metric)
    scale = 100 if table.in_per_cent(column) else 1
    return (
        line.benchmark.label,
        metric_label(table, column),
        f"{scale * line.first:.2f}",
        f"{scale * line.second:.2f}",
        f"{scale * paired.difference:+.2f}",
        translate("too few")
        if paired.low is None or paired.high is None
        else f"[{scale * paired.low:+.2f}, {scale * paired.high:+.2f}]",
        str(paired.n),
        "-" if paired.only_first is None else f"{paired.only_first}/{paired.only_second}",
        "-" if line.p_holm is None else p_text(line.p_holm),
        "-" if paired.detectable is None else f"{scale * paired.detectable:.1f}",
        translate({"better": "B better", "worse": "A better"}.get(line.verdict, line.verdict)),
    )


def p_text(p_value: float) -> str:
    """Format a p-value."""
    return "< 0.001" if p_value < 0.001 else f"{p_value:.3f}"


def _notes(lines: Sequence[Difference], n_tests: int) -> list[str]:
    tests = ", ".join(sorted({line.paired.test for line in lines} - {""})) or "-"
    notes = [
        UserMessage(
            "p and intervals: {test} over images; p corrected by Holm over {n} lines of all compared models.",
            test=tests,
            n=n_tests,
        ),
        "They cover the choice of test samples; prompts, judges and, except for few shots, training images are fixed.",
        "detectable: the smallest true difference found in 4 of 5 cases with this many samples. Fractions in per cent.",
    ]
    if any(line.lower_is_better for line in lines):
        notes.append("↓: lower is better.")
    for line in lines:
        name = f"{line.benchmark.label}, {line.metric}"
        if line.paired.draws and line.paired.p_value is None:
            few = (
                "{name}: no interval and no p-value: {n} draws of training images do not show how much their choice "
                "matters. Run both with {--fewshot_repeats=3} or more."
            )
            notes.append(UserMessage(few, name=name, n=line.paired.draws))
        elif line.paired.draws:
            means = "{name}: means over {n} draws of training images; interval and p cover the choice of these, too."
            notes.append(UserMessage(means, name=name, n=line.paired.draws))
        if line.left_out:
            notes.append(
                UserMessage(
                    "{name}: {n} samples were left out because only one of the two models has a value.",
                    name=name,
                    n=line.left_out,
                )
            )
        fewer = " and ".join(f"{side} {text}" for side, text in zip("AB", line.fewer, strict=True) if text)
        if fewer:
            notes.append(UserMessage("{name}: lost samples: {list}.", name=name, list=fewer))
    return notes


# A model's position among published ones, as plain text for a terminal.


NOTHING = "No published result shares a benchmark with these results."
POSITION_COLUMNS = columns_of(
    *("benchmark", "metric", "yours", "best", "rank", "", "of"), right=("yours", "best", "of"), below=("best", "of")
)
OPEN = "~"
"""Marks a rank that rounding or the interval leaves open."""


def position_text(table: ResultTable, position: LeaderboardPosition, width: int | None = None) -> str:
    """Lay out the ranks of one model in one publication."""
    rows: list[tuple[str, ...]] = []
    notes: list[str] = []
    for column, rank in position.ranks:
        label, scale = table.benchmarks[column.benchmark].label, 100 if table.in_per_cent(column) else 1
        rows.append((label, metric_label(table, column), *_cells(rank, scale)))
        if rank.published is not None:
            value = scale * rank.published
            notes.append(UserMessage("{name}: published for these weights: {value:.2f}", name=label, value=value))
    if position.overall:
        rows.append((f"mean of {position.averaged}", "", *_cells(position.overall, 100)))
    if any(OPEN in row for row in rows):
        notes.insert(0, "~: rounding or your interval leaves the rank open; (from-to) is the range.")
    notes += [UserMessage("not ranked: {name}", name=one_line(text)) for text in position.left_out]
    if position.parameters is None:
        compared = "{n} published models"
    elif position.unknown_size:
        compared = "{n} published models of at most {size:,.1f} M parameters; {unknown} of unknown size left out"
    else:
        compared = "{n} published models of at most {size:,.1f} M parameters"
    size = (position.parameters or 0) / 1e6
    heads = [
        UserMessage(
            "{model} among {title}, copied {date}:",
            model=one_line(table.models[position.model].label),
            title=position.publication.title,
            date=position.publication.date,
        ),
        UserMessage(compared, n=position.compared, size=size, unknown=position.unknown_size),
        "",
    ]
    laid_out = lay_out(POSITION_COLUMNS, rows, width) if position.compared and rows else []
    lines = [*_wrapped(heads, width), *chain.from_iterable(laid_out), *_wrapped(["", *notes] if notes else [], width)]
    return "\n".join(lines) + "\n"


def positions_text(table: ResultTable, found: Sequence[LeaderboardPosition], width: int | None = None) -> str:
    """Lay out all ranks, or a message that there are none."""
    return "\n".join(position_text(table, position, width) for position in found) or f"{translate(NOTHING)}\n"


def positions_json(table: ResultTable, found: Sequence[LeaderboardPosition]) -> list[dict[str, Any]]:
    """Return all ranks as plain values."""
    return [
        {
            "model": table.models[position.model].label,
            "reference": position.publication.name,
            "parameters": position.parameters,
            "compared": position.compared,
            "lines": [
                {"benchmark": table.benchmarks[column.benchmark].label, "metric": column.metric, **asdict(rank)}
                for column, rank in position.ranks
            ],
            "overall": position.overall and asdict(position.overall) | {"benchmarks": position.averaged},
            "left_out": list(position.left_out),
        }
        for position in found
    ]


def _cells(rank: PublishedRank, scale: int) -> tuple[str, ...]:
    best = "" if rank.best is None else f"{scale * rank.best:.2f}"
    text, mark = (str(rank.rank), "") if rank.low == rank.high else (f"{rank.rank} ({rank.low}-{rank.high})", OPEN)
    return f"{scale * rank.value:.2f}", best, text, mark, str(rank.among)
