"""Comparison of routes for retrieving images by text, in one table.

One route matches texts with images (a CLIP-like model); the other lets a generator describe the images and matches
texts with the descriptions (a text encoder, optionally with a reranker). Both search the same images with the same
queries, so their hit rates share a column, and differences are tested query by query.
"""

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
    contents = {"md": text, "csv": as_csv(table), "json": to_json(table, indent=1) + "\n"}
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


def compare(dataset: str, routes: Sequence[Route], ks: Sequence[int]) -> dict[str, Any]:
    """Score routes on their common queries; return the table as plain values, the best route first.

    Routes are ordered and tested by the main k, the first one smaller than the gallery: beyond that, every route finds
    everything. ``difference`` is from the best route; ``p_value`` has Holm's correction over all routes. Without enough
    images an interval is None.
    """
    keys = sorted(set.intersection(*(set(route.ranks) for route in routes)))
    _, cluster = np.unique([image for image, _ in keys], return_inverse=True)
    images = int(cluster.max(initial=-1)) + 1
    main = next((k for k in ks if k < images), ks[0])

    def hits(route: Route, k: int) -> NDArray[np.float64]:
        return np.array([route.ranks[key] <= k for key in keys], np.float64)

    preferred = [main, *(k for k in ks if k != main)]
    order = sorted(routes, key=lambda route: [-hits(route, k).mean() for k in preferred])
    best = hits(order[0], main)
    tests = [stats.paired_test(hits(route, main), best, cluster).p_value for route in order[1:]]
    corrected = map(float, stats.holm(tests)) if tests else ()
    intervals = [{str(k): stats.mean_interval(hits(route, k), cluster) for k in ks} for route in order]
    rows = [
        {
            "search_in": route.kind,
            "model": route.model,
            "recall": {str(k): float(hits(route, k).mean()) for k in sorted(ks)},
            "intervals": {k: ends and list(ends) for k, ends in own.items()},
            "difference": float((hits(route, main) - best).mean()),
            "p_value": p,
            "result": str(route.path),
        }
        for route, own, p in zip(order, intervals, [None, *corrected], strict=True)
    ]
    sizes = {"queries": len(keys), "images": images, "main_k": main}
    return {"comparison": "retrieval", "of": dataset, **sizes, "rows": rows}


def as_markdown(table: Mapping[str, Any], missing: int = 0) -> str:
    """Format the table as Markdown."""
    ks = list(table["rows"][0]["recall"])
    heads = ["search in", "model", *(f"recall@{k}" for k in ks), f"behind the best @{table['main_k']}", "p"]
    about = UserMessage(
        "Retrieval of the {images} images of {dataset} by {queries} text queries. recall@k is the share of queries "
        "that find their image among the first k, in per cent, with its 95 % interval; chance is {chance}.",
        images=table["images"],
        dataset=one_line(table["of"]),
        queries=table["queries"],
        chance=", ".join(f"{shown(stats.chance_hit_rate(table['images'], 1, int(k)))} @{k}" for k in ks),
    )
    lines = [about, "", f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for row in table["rows"]:
        cells = [row["search_in"], one_line(row["model"]).replace("|", "/")]
        for k, value in row["recall"].items():
            ends = row["intervals"][k]
            cells.append(f"{shown(value)} ({' - '.join(map(shown, ends)) if ends else 'too few'})")
        p = row["p_value"]
        cells += ["", ""] if p is None else [shown(-row["difference"]), f"{p:.3f}" if p >= 0.0005 else "< 0.001"]
        lines.append(f"| {' | '.join(cells)} |")
    if missing:
        lines += ["", UserMessage("Failed routes that are not shown: {missing}.", missing=missing)]
    return "\n".join(lines) + "\n"


def as_csv(table: Mapping[str, Any]) -> str:
    """Format the table as CSV."""
    ks = list(table["rows"][0]["recall"])
    rows: list[list[Any]] = [
        ["search_in", "model", *(f"{part}@{k}" for k in ks for part in ("recall", "low", "high")), "p_value"]
    ]
    for row in table["rows"]:
        cells = [value for k in ks for value in (row["recall"][k], *(row["intervals"][k] or (None, None)))]
        rows.append([row["search_in"], row["model"], *cells, row["p_value"]])
    return csv_text(rows)
