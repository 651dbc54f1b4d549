"""Comparisons as plain text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from eyechart.io.cells import one_line
from eyechart.io.layout import columns_of, lay_out
from eyechart.io.terminal import wrap
from eyechart.io.translate import translate
from eyechart.report.compare import Difference, PairwiseComparison
from eyechart.report.formats import metric_label
from eyechart.report.ranking import SuiteRanking
from eyechart.report.table import Column, ResultTable
from eyechart.report.tests import LEVEL

COLUMNS = columns_of(
    *("benchmark", "metric", "A", "B", "B - A", "95 % interval", "n", "only A/B", "p (Holm)", "detectable", ""),
    right=("A", "B", "B - A", "95 % interval", "n", "only A/B", "p (Holm)", "detectable"),
    below=("95 % interval", "n", "only A/B", "p (Holm)", "detectable"),
)


def comparison_text(table: ResultTable, comparison: PairwiseComparison, width: int | None = None) -> str:
    """Lay out one comparison: percentages, and points of a per cent for differences."""
    rows = lay_out(COLUMNS, [_row(table, line) for line in comparison.lines], width)
    notes = [
        *_notes(comparison.lines),
        *(f"{name}: both have it, but not in records of the same samples." for name in comparison.unpaired),
    ]
    lines = [
        f"A = {one_line(table.models[comparison.first].label)}",
        f"B = {one_line(table.models[comparison.second].label)}",
        "",
        *(line for row in rows for line in row),
        "",
        *(line for note in notes for line in wrap(translate(note), width)),
    ]
    return "\n".join(lines) + "\n"


def ranking_text(table: ResultTable, ranking: SuiteRanking, width: int | None = None) -> str:
    """Lay out the rank intervals, best mean first."""
    rows = []
    scale = 100 if ranking.in_per_cent else 1
    for model, mean, (low, high) in zip(ranking.models, ranking.means, ranking.ranks, strict=True):
        rank = str(low) if low == high else f"{low}-{high}"
        rows.append((rank, f"{scale * mean:.1f}", table.models[model].label))
    head = f"Ranks over {len(ranking.benchmarks)} benchmarks ({100 * LEVEL:.0f} % intervals, all together):"
    ranked = {table.benchmarks[b].label for b in ranking.benchmarks}
    left = [
        f"{name.label} [{name.task}]" if name.label in ranked else name.label  # another task on the same data
        for b, name in enumerate(table.benchmarks)
        if b not in ranking.benchmarks
    ]
    note = ["", *wrap(translate(f"Not in these ranks: {one_line(', '.join(left))}."), width)] if left else []
    laid_out = lay_out(columns_of("rank", "mean", "model", right=("mean",), wraps=True), rows, width)
    return "\n".join([*wrap(translate(head), width), "", *(line for row in laid_out for line in row), *note]) + "\n"


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
        "< 0.001" if line.p_holm < 0.001 else f"{line.p_holm:.3f}",
        "-" if paired.detectable is None else f"{scale * paired.detectable:.1f}",
        translate({"better": "B better", "worse": "A better"}.get(line.verdict, line.verdict)),
    )


def _notes(lines: Sequence[Difference]) -> list[str]:
    tests = ", ".join(sorted({line.paired.test for line in lines}))
    notes = [
        f"p and intervals: {tests} over images; p corrected by Holm over {len(lines)} lines.",
        "detectable: the smallest true difference that this many samples find in 4 of 5 cases. Fractions in per cent.",
    ]
    if any(line.lower_is_better for line in lines):
        notes.append("↓: lower is better.")
    for line in lines:
        name = f"{line.benchmark.label}, {line.metric}"
        if line.left_out:
            notes.append(f"{name}: {line.left_out} samples that only one of the two has a number for were left out.")
        fewer = " and ".join(f"{side} {text}" for side, text in zip("AB", line.fewer, strict=True) if text)
        if fewer:
            notes.append(f"{name}: lost samples: {fewer}.")
    return notes
