"""Where a model stands among published ones, as plain text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from eyechart.io.cells import one_line
from eyechart.io.layout import columns_of, lay_out
from eyechart.io.terminal import wrap
from eyechart.io.translate import translate
from eyechart.report.formats import metric_label
from eyechart.report.standing import PublishedRank, Standing
from eyechart.report.table import Column, ResultTable

NOTHING = "Nothing that was published has a benchmark of these results."
COLUMNS = columns_of(
    *("benchmark", "metric", "yours", "best", "rank", "", "of"), right=("yours", "best", "of"), below=("best", "of")
)
OPEN = "~"
"""Marks a rank that rounding or the interval leave open."""


def standing_text(table: ResultTable, standing: Standing, width: int | None = None) -> str:
    """Lay out the ranks of one model in one publication."""
    publication = standing.publication
    size = "" if standing.parameters is None else f" of at most {standing.parameters / 1e6:,.1f} M parameters"
    rows: list[tuple[str, ...]] = []
    for line in standing.lines:
        column = Column(line.benchmark, line.metric)
        scale = 100 if table.in_per_cent(column) else 1
        rows.append((table.benchmarks[line.benchmark].label, metric_label(table, column), *_cells(line.rank, scale)))
    if standing.overall:
        rows.append((f"mean of {standing.averaged}", "", *_cells(standing.overall, 100)))
    heads = [
        f"{one_line(table.models[standing.model].label)} among {publication.title}, copied {publication.date}:",
        f"{standing.compared} published models{size}"
        + (f"; {standing.unknown_size} of unknown size left out" if standing.unknown_size else ""),
    ]
    laid_out = lay_out(COLUMNS, rows, width) if standing.compared and rows else []
    lines = [
        *(line for head in heads for line in wrap(translate(head), width)),
        "",
        *(line for row in laid_out for line in row),
        *(line for note in _notes(table, standing) for line in wrap(translate(note), width)),
    ]
    return "\n".join(lines) + "\n"


def standings_text(table: ResultTable, found: Sequence[Standing], width: int | None = None) -> str:
    """Lay out all ranks, or say that there are none."""
    return "\n".join(standing_text(table, standing, width) for standing in found) or f"{translate(NOTHING)}\n"


def standings_json(table: ResultTable, found: Sequence[Standing]) -> list[dict[str, Any]]:
    """Return all ranks as plain values."""
    return [
        {
            "model": table.models[standing.model].label,
            "reference": standing.publication.name,
            "parameters": standing.parameters,
            "compared": standing.compared,
            "lines": [
                {"benchmark": table.benchmarks[line.benchmark].label, "metric": line.metric, **asdict(line.rank)}
                for line in standing.lines
            ],
            "overall": standing.overall and asdict(standing.overall) | {"benchmarks": standing.averaged},
            "left_out": list(standing.left_out),
        }
        for standing in found
    ]


def rank_text(rank: PublishedRank) -> str:
    """Write a rank, as a range where it is open."""
    return str(rank.rank) if rank.low == rank.high else f"{rank.rank} ({rank.low}-{rank.high})"


def _cells(rank: PublishedRank, scale: int) -> tuple[str, ...]:
    best = "" if rank.best is None else f"{scale * rank.best:.2f}"
    mark = "" if rank.low == rank.high else OPEN
    return f"{scale * rank.value:.2f}", best, rank_text(rank), mark, str(rank.among)


def _notes(table: ResultTable, standing: Standing) -> list[str]:
    ranks = [line.rank for line in standing.lines] + ([standing.overall] if standing.overall else [])
    notes = [""]
    if any(rank.low != rank.high for rank in ranks):
        notes.append(f"{OPEN}: the published rounding or your interval cannot tell; (from-to) is possible.")
    for line in standing.lines:
        if line.rank.published is not None:
            scale = 100 if table.in_per_cent(Column(line.benchmark, line.metric)) else 1
            label = table.benchmarks[line.benchmark].label
            notes.append(f"{label}: published for these weights: {scale * line.rank.published:.2f}")
    notes += [f"not ranked: {one_line(text)}" for text in standing.left_out]
    return notes if len(notes) > 1 else []
