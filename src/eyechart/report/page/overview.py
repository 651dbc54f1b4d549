"""What the page shows at once: models, benchmarks, results and published numbers, within limits on size."""

import base64
import json
import math
import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from eyechart.io.safe_parse import is_number
from eyechart.report.leaderboard import LeaderboardPosition, published_positions
from eyechart.report.loader import LoadedResult
from eyechart.report.paired_records import differing
from eyechart.report.reference import load_publication, published_tables
from eyechart.report.result_table import Column, ResultTable, lost_samples, metric_label
from eyechart.results import Result, to_json

MAX_TEXT = 20_000
"""Characters kept of one text."""
MAX_THUMBNAIL, MAX_PREVIEW = 32_768, 131_072
"""Characters of the data URL of one image."""
FOR_THUMBNAILS = 9_000_000
_THUMBNAIL = re.compile(r"data:image/(?:jpeg|png|webp|gif);base64,[A-Za-z0-9+/]+={0,2}")


@dataclass
class Limits:
    """Size limits of the samples; totals over all benchmarks are decremented as benchmarks are added."""

    samples: int = 50_000
    """Samples listed per benchmark."""
    questions: int = 3_000
    """Samples listed with questions and answers per benchmark."""
    images: int = 200
    """Thumbnails per benchmark; 0 for none."""
    image_bytes: int = 30_000_000
    """Images in total: thumbnails, and previews as long as `FOR_THUMBNAILS` are left."""
    text_bytes: int = 24_000_000
    """Questions, answers and captions in total, before packing."""
    transcripts: int = 200
    """Transcripts per result, of the most missed questions."""
    transcript_bytes: int = 6_000_000
    """Transcripts in total, before packing; each result gets an equal share of what is left."""
    results: int = 1
    """Results of questions that are still to come."""
    offer: Callable[[object], bool] | None = None
    """Whether the server of the page offers the image with a digest; None for a page without a server."""

    def transcript_share(self) -> int:
        """Take the share of the next result; what it does not use is given back to `transcript_bytes`."""
        share = self.transcript_bytes // max(self.results, 1)
        self.transcript_bytes, self.results = self.transcript_bytes - share, self.results - 1
        return share


def is_thumbnail(value: object, most: int = MAX_THUMBNAIL) -> bool:
    """Whether a value is an inline image of at most ``most`` characters, as opposed to a URL or another type."""
    return isinstance(value, str) and len(value) <= most and _THUMBNAIL.fullmatch(value) is not None


def cut(value: Any, most: int = MAX_TEXT) -> Any:
    """Truncate texts, also inside lists and mappings, noting the number of missing characters."""
    if isinstance(value, str):
        return value if len(value) <= most else f"{value[:most]} … ({len(value) - most} more characters)"
    if isinstance(value, Mapping):
        return {str(key): cut(item, most) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [cut(item, most) for item in value]
    return value


def short(value: float | None, digits: int = 5) -> float | None:
    """Round a number for the page; None if it is not finite."""
    return None if value is None or not math.isfinite(value) else round(float(value), digits)


def rounded(values: Iterable[float | None]) -> list[float | None]:
    """Round many numbers."""
    return [short(value, 4) for value in values]


LEVEL = 6
"""Level 9 takes three times as long for a page that is 2 % smaller."""


def pack(value: Any) -> str:
    """Pack a value as deflated JSON in base64, unpacked by the browser's DecompressionStream."""
    return base64.b64encode(zlib.compress(plain_json(value).encode(), LEVEL)).decode()


def plain_json(value: Any) -> str:
    """Write ASCII JSON, so that lone surrogates in hostile texts cannot break it; NaN becomes null (the slow path)."""
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":"))
    except ValueError:
        return json.dumps(json.loads(to_json(value)), separators=(",", ":"))


def describe_model(table: ResultTable, row: int) -> dict[str, Any]:
    """Return the description of a row."""
    model = table.models[row]
    results = [table.cells[row, b].result for b in range(len(table.benchmarks)) if (row, b) in table.cells]
    card: Mapping[str, Any] = next((result.model_card for result in results if result.model_card), {})
    rates = _numbers(results, "throughput")
    units = {str(r.provenance.get("throughput_unit", "images/s")) for r in results if "throughput" in r.provenance}
    return {
        "name": cut(model.name, 500),
        "pretrained": "" if model.pretrained == model.name else cut(model.pretrained, 500),
        "suffix": cut(model.suffix, 500),
        "label": cut(model.label, 1000),
        "origin": model.origin,
        "family": cut(str(card.get("family", "")), 100),
        **{key: card.get(key) if is_number(card.get(key)) else None for key in ("parameters", "gflops", "image_size")},
        "throughput": round(sum(rates) / len(rates), 3) if rates and len(units) == 1 else None,
        "unit": cut(min(units, default=""), 40),
        "memory": max(_numbers(results, "peak_gpu_memory") or _numbers(results, "peak_memory"), default=None),
    }


def _numbers(results: Sequence[Result], key: str) -> list[float]:
    """Return what is known about the cost of results, from their provenance."""
    known = (result.provenance.get(key) for result in results)
    return [float(value) for value in known if value is not None and is_number(value)]


def describe_benchmark(table: ResultTable, b: int) -> dict[str, Any]:
    """Return the description of a benchmark and of its metrics."""
    benchmark = table.benchmarks[b]
    results = table.by_benchmark[b].values()
    metrics = table.metrics[b]
    columns = [Column(b, metric) for metric in metrics]
    return {
        "dataset": cut(benchmark.dataset, 500),
        "spellings": [cut(name, 200) for name in table.spellings(b)],
        "task": benchmark.task,
        "language": benchmark.language,
        "kind": benchmark.measures,
        "label": cut(benchmark.label, 500),
        "split": next((str(r.data["split"]) for r in results if r.data.get("split")), ""),
        "n": max((int(r.counts.get("scored", 0)) for r in results), default=0),
        "metrics": metrics,
        "short": [metric_label(table, column) for column in columns],
        "primary": [metrics.index(metric) for metric in table.primary[b]],
        "lower": [table.lower_is_better(column) for column in columns],
        "percent": [table.in_per_cent(column) for column in columns],
        "chance": [short(table.known(column, "chance"), 6) for column in columns],
        "reachable": [short(table.known(column, "best"), 6) for column in columns],
    }


def describe_result(table: ResultTable, m: int, b: int, warnings: dict[tuple[str, str], int]) -> list[Any]:
    """Return a result as a row: model, benchmark, values, low ends, high ends, warnings, lost samples, differences.

    ``warnings`` numbers the distinct warnings of all results in the order in which they are met, by kind and text.
    """
    result = table.cells[m, b].result
    found = [result.values.get(metric) for metric in table.metrics[b]]
    own = [(cut(str(n.get("kind", "")), 100), cut(str(n.get("message", "")), 500)) for n in result.notices]
    return [
        m,
        b,
        [metric and metric.value for metric in found],
        [metric and short(metric.low) for metric in found],
        [metric and short(metric.high) for metric in found],
        [warnings.setdefault(key, len(warnings)) for key in own],
        lost_samples(result),
        differing(table, m, b),
    ]


def describe_published(found: Sequence[LoadedResult], references: Sequence[str]) -> dict[str, Any]:
    """Return the data of the view, from a separate table: benchmarks only in publications are shown nowhere else."""
    if not references:
        return {}
    table, standings = published_positions(found, references)
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
        "standings": [_position(table, position) for position in standings],
    }


def _position(table: ResultTable, position: LeaderboardPosition) -> dict[str, Any]:
    overall = {"benchmark": "", "metric": "", "percent": True, "n": position.averaged}
    return {
        "model": position.model,
        "title": position.publication.title,
        "parameters": position.parameters,
        "compared": position.compared,
        "unknown": position.unknown_size,
        "lines": [
            {
                "benchmark": cut(table.benchmarks[column.benchmark].label, 500),
                "metric": metric_label(table, column),
                "percent": table.in_per_cent(column),
                **asdict(rank),
            }
            for column, rank in position.ranks
        ],
        "overall": position.overall and asdict(position.overall) | overall,
        "left_out": [cut(text, 500) for text in position.left_out],
    }
