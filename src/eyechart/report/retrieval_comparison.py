"""Comparison of routes for retrieving images by text, in one table.

One route matches texts with images (a CLIP-like model); the other lets a generator describe the images and matches
texts with the descriptions (a text encoder, optionally with a reranker). Both search the same images with the same
queries, so their hit rates share a column, and differences are tested query by query.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eyechart import stats
from eyechart.io.files import write_atomic
from eyechart.io.text_tables import csv_text, one_line
from eyechart.messages import UserMessage
from eyechart.results import read_result, to_json
from eyechart.results.views import shown

CAPTION_SEARCH = "text_retrieval"
"""The task whose results search descriptions instead of images."""
Key = tuple[str, int]
"""An image's id, and the index of the query among its texts."""


@dataclass(frozen=True)
class Route:
    """One row: the kind of search, and the rank at which each query found its image."""

    kind: str
    model: str
    ranks: Mapping[Key, float]
    path: Path


@dataclass(frozen=True)
class Row:
    """A route in numbers."""

    route: Route
    hits: Mapping[int, float]
    intervals: Mapping[int, stats.Interval | None]
    """None: too few images."""
    difference: float
    """From the best route at the main k; 0 or less."""
    p_value: float | None
    """Of that difference, with Holm's correction over all routes; None for the best route itself."""


@dataclass(frozen=True)
class RetrievalComparison:
    """All routes, best first."""

    dataset: str
    rows: tuple[Row, ...]
    ks: tuple[int, ...]
    main: int
    """The k by which routes are ordered and tested."""
    queries: int
    images: int


@dataclass(frozen=True)
class ComparisonPlan:
    """The results to compare, and the output path of the table."""

    dataset: str
    outputs: tuple[Path, ...]
    """The result files; those of failed jobs are left out."""
    base: Path
    """The path of the table without its suffix."""
    ks: tuple[int, ...]


def write_comparison(plan: ComparisonPlan, lost: Collection[Path]) -> str:
    """Write the table as Markdown, CSV and JSON, without the lost results; return it as Markdown."""
    routes = [read_route(path) for path in plan.outputs if path not in lost]
    if not routes:
        return ""
    table = compare(plan.dataset, routes, plan.ks)
    text = as_markdown(table, missing=len(plan.outputs) - len(routes))
    contents = {"md": text, "csv": as_csv(table), "json": to_json(as_json(table), indent=1) + "\n"}
    for suffix, content in contents.items():
        write_atomic(plan.base.with_name(f"{plan.base.name}.{suffix}"), content.encode())
    return text


def read_route(path: Path) -> Route:
    """Read the ranks of a result from its records."""
    result = read_result(path)
    in_captions = result.task == CAPTION_SEARCH
    seen: Counter[str] = Counter()
    ranks: dict[Key, float] = {}
    for record in result.iter_records():
        if record["query"] == "text" and str(record["text"]).strip():
            image = str(record["image_id" if in_captions else "image"])
            ranks[image, seen[image]] = np.inf if record["rank"] is None else float(record["rank"])
            seen[image] += 1
    return Route("captions" if in_captions else "images", result.model, ranks, path)


def compare(dataset: str, routes: Sequence[Route], ks: Sequence[int]) -> RetrievalComparison:
    """Score routes, best first, on their common queries.

    The main k is the first one smaller than the gallery: beyond that, every route finds everything.
    """
    keys = sorted(set.intersection(*(set(route.ranks) for route in routes)))
    _, cluster = np.unique([image for image, _ in keys], return_inverse=True)
    sizes = np.bincount(cluster)
    main = next((k for k in ks if k < len(sizes)), ks[0])

    def hits(route: Route, k: int) -> NDArray[np.float64]:
        return np.array([route.ranks[key] <= k for key in keys], np.float64)

    preferred = [main, *(k for k in ks if k != main)]
    order = sorted(routes, key=lambda route: [-hits(route, k).mean() for k in preferred])
    best = hits(order[0], main)
    tests = [stats.paired_test(hits(route, main), best, cluster).p_value for route in order[1:]]
    corrected = map(float, stats.holm(tests)) if tests else ()
    rows = [
        Row(
            route=route,
            hits={k: float(hits(route, k).mean()) for k in ks},
            intervals={k: stats.mean_interval(hits(route, k), cluster) for k in ks},
            difference=float((hits(route, main) - best).mean()),
            p_value=p,
        )
        for route, p in zip(order, [None, *corrected], strict=True)
    ]
    return RetrievalComparison(dataset, tuple(rows), tuple(sorted(ks)), main, len(keys), len(sizes))


def as_markdown(table: RetrievalComparison, missing: int = 0) -> str:
    """Format the table as Markdown."""
    heads = ["search in", "model", *(f"recall@{k}" for k in table.ks), f"behind the best @{table.main}", "p"]
    chance = ", ".join(f"{shown(stats.chance_hit_rate(table.images, 1, k))} @{k}" for k in table.ks)
    about = UserMessage(
        "Retrieval of the {images} images of {dataset} by {queries} text queries. recall@k is the share of queries "
        "that find their image among the first k, in per cent, with its 95 % interval; chance is {chance}.",
        images=table.images,
        dataset=one_line(table.dataset),
        queries=table.queries,
        chance=chance,
    )
    lines = [about, "", f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for row in table.rows:
        cells = [row.route.kind, one_line(row.route.model).replace("|", "/")]
        for k in table.ks:
            interval = row.intervals[k]
            ends = f"{shown(interval.low)} - {shown(interval.high)}" if interval else "too few"
            cells.append(f"{shown(row.hits[k])} ({ends})")
        p = row.p_value
        cells += ["", ""] if p is None else [shown(-row.difference), f"{p:.3f}" if p >= 0.0005 else "< 0.001"]
        lines.append(f"| {' | '.join(cells)} |")
    if missing:
        lines += ["", UserMessage("Failed routes that are not shown: {missing}.", missing=missing)]
    return "\n".join(lines) + "\n"


def as_csv(table: RetrievalComparison) -> str:
    """Format the table as CSV."""
    heads = [f"{part}@{k}" for k in table.ks for part in ("recall", "low", "high")]
    rows: list[list[Any]] = [["search_in", "model", *heads, "p_value"]]
    for row in table.rows:
        cells = [value for k in table.ks for value in (row.hits[k], *(row.intervals[k] or (None, None)))]
        rows.append([row.route.kind, row.route.model, *cells, row.p_value])
    return csv_text(rows)


def as_json(table: RetrievalComparison) -> dict[str, Any]:
    """Return the table as plain values."""
    rows = [
        {
            "search_in": row.route.kind,
            "model": row.route.model,
            "recall": {str(k): row.hits[k] for k in table.ks},
            "intervals": {str(k): ends and list(ends) for k, ends in row.intervals.items()},
            "difference": row.difference,
            "p_value": row.p_value,
            "result": str(row.route.path),
        }
        for row in table.rows
    ]
    sizes = {"queries": table.queries, "images": table.images, "main_k": table.main}
    return {"comparison": "retrieval", "of": table.dataset, **sizes, "rows": rows}
