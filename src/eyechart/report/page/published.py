"""What the page shows of published numbers: their tables with one's own rows, sources, and where one's models stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from eyechart.report.formats import metric_label
from eyechart.report.load import Found
from eyechart.report.page.limits import cut
from eyechart.report.page.overview import describe_model
from eyechart.report.reference import load_publication, published_tables
from eyechart.report.standing import PublishedRank, Standing, published_standings
from eyechart.report.table import Column, ResultTable


def describe_published(found: Sequence[Found], references: Sequence[str]) -> dict[str, Any]:
    """Return the data of the view, in a table of its own: benchmarks that only others have are shown nowhere else."""
    if not references:
        return {}
    table, standings = published_standings(found, references)
    sources = [load_publication(name) for name in dict.fromkeys(references)]
    return {
        "results": sum(len(part.found) for part in sources),
        "models": [describe_model(table, m) for m in range(len(table.models))],
        "sources": [
            {key: getattr(part, key) for key in ("name", "title", "source", "date", "notes")} for part in sources
        ],
        "tables": [
            {"reference": part.title, **asdict(one)} for part in sources for one in published_tables(part.name, table)
        ],
        "standings": [_standing(table, standing) for standing in standings],
    }


def _standing(table: ResultTable, standing: Standing) -> dict[str, Any]:
    lines = []
    for line in standing.lines:
        column = Column(line.benchmark, line.metric)
        names = cut(table.benchmarks[line.benchmark].label, 500), metric_label(table, column)
        lines.append(_line(*names, line.rank, percent=table.in_per_cent(column)))
    return {
        "model": standing.model,
        "title": standing.publication.title,
        "parameters": standing.parameters,
        "compared": standing.compared,
        "unknown": standing.unknown_size,
        "lines": lines,
        "overall": standing.overall and _line("", "", standing.overall, percent=True) | {"n": standing.averaged},
        "left_out": [cut(text, 500) for text in standing.left_out],
    }


def _line(benchmark: str, metric: str, rank: PublishedRank, *, percent: bool) -> dict[str, Any]:
    return {"benchmark": benchmark, "metric": metric, "percent": percent, **asdict(rank)}
