"""Comparisons as plain text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from eyechart.io.cells import one_line
from eyechart.report.compare import LEVEL, Comparison, Difference
from eyechart.report.formats import metric_label
from eyechart.report.ranking import Ranking
from eyechart.report.table import Table

HEADER = ("benchmark", "metric", "n", "A", "B", "B - A", "95 % interval", "only A/B", "p (Holm)", "detectable", "")


def comparison_text(table: Table, comparison: Comparison) -> str:
    """Lay out one comparison: percentages, and points of a per cent for differences."""
    lines = [
        f"A = {one_line(table.models[comparison.first].label)}",
        f"B = {one_line(table.models[comparison.second].label)}",
        "",
        *align([HEADER, *(_row(line) for line in comparison.lines)]),
        "",
        *_notes(comparison.lines),
    ]
    return "\n".join(lines) + "\n"


def ranking_text(table: Table, ranking: Ranking) -> str:
    """Lay out the rank intervals, best mean first."""
    order = sorted(range(len(ranking.models)), key=lambda i: -ranking.means[i])
    rows = [("rank", "mean", "model")]
    for i in order:
        low, high = ranking.ranks[i]
        rank = str(low) if low == high else f"{low}-{high}"
        rows.append((rank, f"{100 * ranking.means[i]:.1f}", table.models[ranking.models[i]].label))
    head = f"Ranks over {len(ranking.benchmarks)} benchmarks ({100 * LEVEL:.0f} % intervals, all together):"
    return "\n".join([head, "", *align(rows)]) + "\n"


def align(rows: Sequence[Sequence[str]]) -> list[str]:
    """Pad columns to equal width; the first two are text, the others numbers."""
    rows = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if i < 2 or i == len(row) - 1 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def p_text(p: float) -> str:
    """Write a p-value with as many digits as it deserves."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _row(line: Difference) -> tuple[str, ...]:
    detectable = "-" if line.detectable is None else f"{100 * line.detectable:.1f}"
    only = "-" if line.only_first is None else f"{line.only_first}/{line.only_second}"
    return (
        line.benchmark.label,
        metric_label(line.metric),
        str(line.n),
        f"{100 * line.first:.2f}",
        f"{100 * line.second:.2f}",
        f"{100 * line.difference:+.2f}",
        f"[{100 * line.low:+.2f}, {100 * line.high:+.2f}]",
        only,
        p_text(line.p_holm),
        detectable,
        {"better": "B better", "worse": "A better"}.get(line.verdict, line.verdict),
    )


def _notes(lines: Sequence[Difference]) -> list[str]:
    tests = sorted({line.test for line in lines})
    notes = [
        f"p and intervals: {', '.join(tests)} over images; p corrected by Holm over {len(lines)} lines.",
        "detectable: the smallest true difference that this many samples find in 4 of 5 cases. All in per cent.",
    ]
    unmatched = sum(line.unmatched for line in lines)
    if unmatched:
        notes.append(f"{unmatched} samples that only one of the two has were left out.")
    return notes
