"""``task: retrieval_comparison``: which way of finding images by text is best for these data, in one table.

One way compares texts with images (a CLIP-like model); the other lets a generator describe the images and compares
texts with the descriptions (a text encoder, perhaps with a reranker). Both search the same images with the same
queries, so their hit rates stand in one column, and differences are tested query by query.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eyechart import stats
from eyechart.compat.evalscope.layout import file_name
from eyechart.io.cells import csv_text, one_line
from eyechart.io.files import write_atomic
from eyechart.results import read_result, to_json
from eyechart.results.numbers import shown
from eyechart.tasks.retrieval.text_retrieval import TextRetrieval

Key = tuple[str, int]
"""An image's id, and which of its texts is the query."""


@dataclass(frozen=True)
class Way:
    """One row: how images were searched, and at what rank each query found its image."""

    kind: str
    model: str
    ranks: Mapping[Key, float]
    path: Path


@dataclass(frozen=True)
class Row:
    """A way in figures."""

    way: Way
    hits: Mapping[int, float]
    intervals: Mapping[int, stats.Interval | None]
    """None: too few images."""
    difference: float
    """To the best way at the main k; 0 or less."""
    p_value: float | None
    """Of that difference, with Holm's correction over all ways; None for the best way itself."""


@dataclass(frozen=True)
class RetrievalComparison:
    """All ways, best first."""

    dataset: str
    rows: tuple[Row, ...]
    ks: tuple[int, ...]
    main: int
    """The k by which ways are ordered and tested."""
    queries: int
    images: int


@dataclass(frozen=True)
class ComparisonPlan:
    """Which results are put side by side, and where the table goes."""

    dataset: str
    outputs: tuple[Path, ...]
    """Where those results are; one that failed is left out."""
    folder: Path
    ks: tuple[int, ...]


def write_comparison(plan: ComparisonPlan, lost: Collection[Path], log: logging.Logger) -> None:
    """Write the table as Markdown, CSV and JSON; of results but those that are lost."""
    ways = [read_way(path) for path in plan.outputs if path not in lost]
    if not ways:
        return
    table = compare(plan.dataset, ways, plan.ks)
    base = plan.folder / f"{file_name(plan.dataset)}_retrieval_comparison"
    text = as_markdown(table, missing=len(plan.outputs) - len(ways))
    write_atomic(base.with_suffix(".md"), text.encode())
    write_atomic(base.with_suffix(".csv"), as_csv(table).encode())
    write_atomic(base.with_suffix(".json"), (to_json(as_json(table), indent=1) + "\n").encode())
    log.info("RetrievalComparison written to %s\n%s", base.with_suffix(".md"), text)


def read_way(path: Path) -> Way:
    """Read the ranks of a result, from its records."""
    result = read_result(path)
    in_captions = result.task == TextRetrieval.name
    seen: Counter[str] = Counter()
    ranks: dict[Key, float] = {}
    for record in result.iter_records():
        if record["query"] == "text" and str(record["text"]).strip():
            image = str(record["image_id" if in_captions else "image"])
            ranks[image, seen[image]] = np.inf if record["rank"] is None else float(record["rank"])
            seen[image] += 1
    return Way("captions" if in_captions else "images", result.model, ranks, path)


def compare(dataset: str, ways: Sequence[Way], ks: Sequence[int]) -> RetrievalComparison:
    """Put ways into figures, best first, on the queries that all of them have.

    The main k is the first one that is smaller than the gallery: beyond that, everybody finds everything.
    """
    keys = sorted(set.intersection(*(set(way.ranks) for way in ways)))
    _, cluster = np.unique([image for image, _ in keys], return_inverse=True)
    sizes = np.bincount(cluster)
    main = next((k for k in ks if k < len(sizes)), ks[0])

    def hits(way: Way, k: int) -> NDArray[np.float64]:
        return np.array([way.ranks[key] <= k for key in keys], np.float64)

    preferred = [main, *(k for k in ks if k != main)]
    order = sorted(ways, key=lambda way: [-hits(way, k).mean() for k in preferred])
    best = hits(order[0], main)
    tests = [stats.paired_test(hits(way, main), best, cluster).p_value for way in order[1:]]
    corrected = [float(p) for p in stats.holm(tests)] if tests else []
    rows = [
        Row(
            way=way,
            hits={k: float(hits(way, k).mean()) for k in ks},
            intervals={k: stats.mean_interval(hits(way, k), cluster) for k in ks},
            difference=float((hits(way, main) - best).mean()),
            p_value=p,
        )
        for way, p in zip(order, [None, *corrected], strict=True)
    ]
    return RetrievalComparison(dataset, tuple(rows), tuple(sorted(ks)), main, len(keys), len(sizes))


def as_markdown(table: RetrievalComparison, missing: int = 0) -> str:
    """Write the table for people."""
    heads = ["search in", "model", *(f"recall@{k}" for k in table.ks), f"behind the best @{table.main}", "p"]
    chance = ", ".join(f"{shown(stats.chance_hit_rate(table.images, 1, k))} @{k}" for k in table.ks)
    about = (
        f"Finding the {table.images} images of {one_line(table.dataset)} by {table.queries} texts. recall@k is the "
        "share of texts that find their image among the first k, in per cent, with its 95 % interval; chance is "
        f"{chance}."
    )
    lines = [about, "", f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for row in table.rows:
        cells = [_share(row.hits[k], row.intervals[k]) for k in table.ks]
        behind = ["", ""] if row.p_value is None else [shown(-row.difference), _probability(row.p_value)]
        lines.append(f"| {' | '.join([row.way.kind, one_line(row.way.model).replace('|', '/'), *cells, *behind])} |")
    if missing:
        lines += ["", f"{missing} of the ways failed and are not shown."]
    return "\n".join(lines) + "\n"


def _share(value: float, interval: stats.Interval | None) -> str:
    return f"{shown(value)} ({f'{shown(interval.low)} - {shown(interval.high)}' if interval else 'too few'})"


def _probability(p: float) -> str:
    return f"{p:.3f}" if p >= 0.0005 else "< 0.001"


def as_csv(table: RetrievalComparison) -> str:
    """Write the table for spreadsheets."""
    heads = [f"{part}@{k}" for k in table.ks for part in ("recall", "low", "high")]
    rows: list[list[Any]] = [["search_in", "model", *heads, "p_value"]]
    for row in table.rows:
        cells = [value for k in table.ks for value in (row.hits[k], *(row.intervals[k] or (None, None)))]
        rows.append([row.way.kind, row.way.model, *cells, row.p_value])
    return csv_text(rows)


def as_json(table: RetrievalComparison) -> dict[str, Any]:
    """Return the table as plain values."""
    rows = [
        {
            "search_in": row.way.kind,
            "model": row.way.model,
            "recall": {str(k): row.hits[k] for k in table.ks},
            "intervals": {str(k): ends and list(ends) for k, ends in row.intervals.items()},
            "difference": row.difference,
            "p_value": row.p_value,
            "result": str(row.way.path),
        }
        for row in table.rows
    ]
    sizes = {"queries": table.queries, "images": table.images, "main_k": table.main}
    return {"comparison": "retrieval", "of": table.dataset, **sizes, "rows": rows}
