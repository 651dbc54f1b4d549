"""Everything the page shows, as plain values: an overview, one chunk for each benchmark, and the comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from itertools import combinations
from typing import Any

from eyechart.errors import ResultError
from eyechart.io.untrusted import DAMAGED
from eyechart.report.averages import AVERAGES, average
from eyechart.report.compare import Difference, compare_column, correct_for_many
from eyechart.report.load import Found, Skipped
from eyechart.report.page.chunks import make_chunk
from eyechart.report.page.limits import Limits, cut, short
from eyechart.report.page.overview import describe_benchmark, describe_model, describe_result
from eyechart.report.page.packing import PackedValues
from eyechart.report.page.published import describe_published
from eyechart.report.pairing import RecordsCache, differences
from eyechart.report.ranking import SuiteScores, tied_with_best
from eyechart.report.reference import load_reference
from eyechart.report.table import Column, ResultTable, benchmark_of, best_of, make_table

ALL_PAIRS = 12
"""Up to so many models every pair is compared; of more, the best by average with each other and with all."""
WORST = 200
"""Mistakes of each result that are shown with what was found instead."""


@dataclass(frozen=True)
class Payload:
    """The parts of the page's data; chunks are packed as soon as they are made, and unpacked when they are needed."""

    overview: dict[str, Any]
    chunks: PackedValues
    pairs: list[dict[str, Any]]
    published: dict[str, Any] = field(default_factory=dict)


@dataclass
class _Gathered:
    """What is collected while the benchmarks are gone through."""

    suite: SuiteScores
    pairs: list[tuple[int, int]]
    marks: dict[tuple[int, str], dict[str, Any]] = field(default_factory=dict)
    lines: dict[tuple[int, int], list[Difference]] = field(default_factory=dict)
    chunks: PackedValues = field(default_factory=PackedValues)
    facts: list[dict[str, Any]] = field(default_factory=list)
    """What the overview says of each chunk, which is packed."""


def make_payload(
    found: Sequence[Found],
    *,
    skipped: Sequence[Skipped] = (),
    references: Sequence[str] = (),
    title: str = "Eyechart report",
    limits: Limits | None = None,
    version: str = "",
) -> Payload:
    """Turn results, and published ones if asked, into the data of the page."""
    limits = limits or Limits()
    table = make_table([*found, *_beside(found, references)])
    cache = RecordsCache(table, keep=WORST, strict=False)
    gathered = _Gathered(SuiteScores(table), choose_pairs(table))
    for benchmark in range(len(table.benchmarks)):
        try:
            _gather(table, benchmark, cache, gathered, limits)
        except DAMAGED as error:
            files = ", ".join(sorted({str(result.path) for result in table.by_benchmark[benchmark].values()}))
            raise ResultError(
                f"The details or records of one of {files} are damaged: {type(error).__name__}: {error}.",
                advice="Write it again, or leave it out.",
            ) from error
        cache.forget(benchmark)
    overview = {
        "title": cut(title, 200),
        "made": datetime.now(UTC).isoformat(timespec="minutes"),
        "version": version,
        "averages": [{"key": key, "heading": heading, "how": how} for key, (heading, how) in AVERAGES.items()],
        "models": [describe_model(table, m) for m in range(len(table.models))],
        "benchmarks": [
            describe_benchmark(table, b, gathered.marks) | gathered.facts[b] for b in range(len(table.benchmarks))
        ],
        "results": [describe_result(table, m, b) for m, b in sorted(table.cells)],
        "ranking": (ranking := gathered.suite.ranking()) and asdict(ranking),
        "published": list(references),
        "notices": [
            *_first([str(cut(item.reason, 300)) for item in skipped]),
            *_first(table.notices),
            *_first(cache.problems),
        ],
        "pairs": len(gathered.lines),
    }
    return Payload(overview, gathered.chunks, _pairs(table, gathered), describe_published(found, references))


MANY_PUBLISHED = 12
"""So many published models alone are still a matrix; more are shown in their own view only."""


def _beside(found: Sequence[Found], references: Sequence[str]) -> list[Found]:
    """Return the published results of the benchmarks that one's own are of; a few models also without these."""
    wanted = {benchmark_of(item.result) for item in found}
    published = [item for name in dict.fromkeys(references) for item in load_reference(name)]
    if wanted:
        return [item for item in published if benchmark_of(item.result) in wanted]
    few = len({(item.argument, item.result.model, item.result.pretrained) for item in published}) <= MANY_PUBLISHED
    return published if few else []


def choose_pairs(table: ResultTable) -> list[tuple[int, int]]:
    """List the pairs of rows to compare: all, or those of the best models if there are too many."""
    models = sorted({m for (m, _), found in table.cells.items() if found.result.record_info})
    if len(models) <= ALL_PAIRS:
        return list(combinations(models, 2))
    mean = average(table, table.columns())
    sign = -1 if mean.lower_is_better else 1
    order = sorted(models, key=lambda m: sign * (mean.values[m] or 0.0), reverse=True)
    top = set(order[:ALL_PAIRS])
    return [(a, b) for a, b in combinations(models, 2) if {a, b} <= top or order[0] in (a, b)]


def _gather(table: ResultTable, benchmark: int, cache: RecordsCache, gathered: _Gathered, limits: Limits) -> None:
    """Read one benchmark's records once and take from them all that is needed."""
    primary = [Column(benchmark, metric) for metric in table.primary[benchmark]]
    for metric in table.metrics_of(benchmark):
        gathered.marks[benchmark, metric] = _marks(table, Column(benchmark, metric), cache)
    gathered.suite.add(primary, cache)
    comparable = cache.comparable(primary[0]) if primary else {}
    for column in primary:
        for pair in gathered.pairs:
            if comparable.keys() >= set(pair):
                line = compare_column(table, column, pair, cache)
                if line is not None:
                    gathered.lines.setdefault(pair, []).append(line)
    chunk = make_chunk(table.by_benchmark[benchmark], comparable, limits)
    images = len(chunk.get("samples", {}).get("thumbnails", ()))
    gathered.facts.append({"form": chunk.get("form", ""), "images": images})
    gathered.chunks.append(chunk)


def _marks(table: ResultTable, column: Column, cache: RecordsCache) -> dict[str, Any]:
    """Say which models are best in a column and which cannot be told from the best, and how that is known."""
    lower = table.lower_is_better(column)
    contest = table.contestants(column)
    best = best_of([contest[m].value if m in contest else None for m in range(len(table.models))], lower=lower)
    if not best:
        return {}
    tied = tied_with_best(table, column, cache)
    if tied is not None:
        return {"best": best, "tied": [m for m in tied if m not in best], "how": "paired"}
    results = table.by_benchmark[column.benchmark]
    ends = {
        m: (x.low, x.high)
        for m, x in contest.items()
        if x.low is not None and x.high is not None and not differences(results[best[0]], results[m])
    }
    if best[0] not in ends:
        return {"best": best, "tied": [], "how": ""}
    low, high = ends[best[0]]
    tied = [m for m, (start, end) in ends.items() if (start <= high if lower else end >= low) and m not in best]
    return {"best": best, "tied": tied, "how": "overlap"}


def _pairs(table: ResultTable, gathered: _Gathered) -> list[dict[str, Any]]:
    place = {benchmark: i for i, benchmark in enumerate(table.benchmarks)}
    return [
        {"a": a, "b": b, "lines": [_difference(line, place[line.benchmark]) for line in correct_for_many(lines)]}
        for (a, b), lines in gathered.lines.items()
    ]


def _difference(line: Difference, benchmark: int) -> dict[str, Any]:
    numbers = {"first": line.first, "second": line.second, **asdict(line.paired), "p": float(f"{line.p_holm:.3g}")}
    known = {"b": benchmark, "metric": line.metric, "verdict": line.verdict, "left_out": line.left_out}
    return known | {key: short(value) if isinstance(value, float) else value for key, value in numbers.items()}


def _first(lines: Sequence[str], most: int = 20) -> list[str]:
    more = len(lines) - most
    return [*lines[:most], *([f"... and {more} more."] if more > 0 else [])]
