"""Everything the page shows, as plain values: an overview, one chunk for each benchmark, and the comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import combinations
from typing import Any

from eyechart.errors import ResultError
from eyechart.report.averages import AVERAGES, average, chance_of
from eyechart.report.chunks import make_chunk
from eyechart.report.compare import Difference, compare_columns, correct_for_many
from eyechart.report.formats import metric_label
from eyechart.report.load import Found, Skipped
from eyechart.report.pairing import RecordsCache, differences
from eyechart.report.ranking import SuiteScores, leader_of, not_separable
from eyechart.report.records import Columns
from eyechart.report.reference import load_reference, published_tables
from eyechart.report.samples import Limits, cut
from eyechart.report.table import Column, Table, make_table

ALL_PAIRS = 12
"""Up to so many models every pair is compared; of more, the best by average with each other and with all."""
WORST = 200
"""Mistakes of each result that are shown with what was found instead."""


@dataclass(frozen=True)
class Payload:
    """The parts of the page's data; chunks are unpacked when they are needed."""

    overview: dict[str, Any]
    chunks: list[dict[str, Any]]
    pairs: list[dict[str, Any]]


@dataclass
class _Gathered:
    """What is collected while the benchmarks are gone through."""

    suite: SuiteScores
    pairs: list[tuple[int, int]]
    marks: dict[tuple[int, str], dict[str, Any]] = field(default_factory=dict)
    lines: dict[tuple[int, int], list[Difference]] = field(default_factory=dict)
    chunks: list[dict[str, Any]] = field(default_factory=list)


_DAMAGED = (AttributeError, IndexError, KeyError, TypeError, ValueError, OverflowError, RecursionError)
"""What parts of a file raise that are of another kind, or nested deeper, than those that we write."""


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
    everything = [*found, *(item for name in references for item in load_reference(name))]
    table = make_table(everything)
    cache = RecordsCache(table, keep=WORST, strict=False)
    gathered = _Gathered(SuiteScores(table), choose_pairs(table))
    for benchmark in range(len(table.benchmarks)):
        try:
            _gather(table, benchmark, cache, gathered, limits)
        except _DAMAGED as error:
            files = ", ".join(sorted({str(result.path) for result in table.results_of(benchmark).values()}))
            raise ResultError(
                f"The details or records of one of {files} are damaged: {type(error).__name__}: {error}.",
                advice="Write it again, or leave it out.",
            ) from error
        cache.forget(benchmark)
    ranking = gathered.suite.ranking()
    overview = {
        "title": cut(title, 200),
        "made": datetime.now(UTC).isoformat(timespec="minutes"),
        "version": version,
        "averages": [{"key": key, "heading": heading, "how": how} for key, (heading, how) in AVERAGES.items()],
        "models": [_model(table, m) for m in range(len(table.models))],
        "benchmarks": [_benchmark(table, b, gathered) for b in range(len(table.benchmarks))],
        "results": [_result(table, m, b) for m, b in sorted(table.cells)],
        "ranking": ranking
        and {
            "models": ranking.models,
            "means": [round(mean, 5) for mean in ranking.means],
            "ranks": ranking.ranks,
            "benchmarks": ranking.benchmarks,
        },
        "published": [_published(name, table) for name in references],
        "notices": [*_notices(table, skipped), *cache.problems[:20]],
        "pairs": len(gathered.lines),
    }
    return Payload(overview, gathered.chunks, _pairs(table, gathered))


def choose_pairs(table: Table) -> list[tuple[int, int]]:
    """List the pairs of rows to compare: all, or those of the best models if there are too many."""
    models = sorted({m for (m, _), found in table.cells.items() if found.result.records})
    if len(models) <= ALL_PAIRS:
        return list(combinations(models, 2))
    means = average(table, table.columns()).values
    order = sorted(models, key=lambda m: means[m] or 0.0, reverse=True)
    top = set(order[:ALL_PAIRS])
    return [(a, b) for a, b in combinations(models, 2) if {a, b} <= top or order[0] in (a, b)]


def _gather(table: Table, benchmark: int, cache: RecordsCache, gathered: _Gathered, limits: Limits) -> None:
    """Read one benchmark's records once and take from them all that is needed."""
    results = table.results_of(benchmark)
    main = table.main[benchmark]
    leader = leader_of(table, Column(benchmark, main[0])) if main else None
    columns = cache.comparable(benchmark, leader) if leader is not None else {}
    columns = {m: part for m, part in sorted(columns.items()) if part.form == next(iter(columns.values())).form}
    for metric in table.metrics_of(benchmark):
        gathered.marks[benchmark, metric] = _marks(table, Column(benchmark, metric), cache)
    gathered.suite.add(benchmark, table.main[benchmark], cache)
    for metric in table.main[benchmark]:
        for pair in gathered.pairs:
            line = _line(table, benchmark, metric, pair, columns)
            if line is not None:
                gathered.lines.setdefault(pair, []).append(line)
    gathered.chunks.append(make_chunk(results, columns, limits))


def _line(
    table: Table, benchmark: int, metric: str, pair: tuple[int, int], columns: Mapping[int, Columns]
) -> Difference | None:
    first, second = columns.get(pair[0]), columns.get(pair[1])
    if first is None or second is None:
        return None
    return compare_columns(table.benchmarks[benchmark], metric, first, second)


def _marks(table: Table, column: Column, cache: RecordsCache) -> dict[str, Any]:
    """Say which models are best in a column and which cannot be told from the best, and how that is known."""
    values = {m: value for m in range(len(table.models)) if (value := table.value(m, column)) is not None}
    if len(values) < 2:  # alone in its column, nobody is best
        return {}
    top = max(values.values())
    best = [m for m, value in values.items() if value == top]
    marks = not_separable(table, column, cache)
    if marks:
        return {"best": best, "tied": [m for m, mark in marks.items() if mark and m not in best], "how": "paired"}
    ends = {m: ends for m in values if (ends := table.interval(m, column)) is not None}
    if best[0] in ends:
        low = ends[best[0]][0]
        return {
            "best": best,
            "tied": [m for m, end in ends.items() if end[1] >= low and m not in best],
            "how": "overlap",
        }
    return {"best": best, "tied": [], "how": ""}


def _model(table: Table, row: int) -> dict[str, Any]:
    model = table.models[row]
    results = [found.result for (m, _), found in sorted(table.cells.items()) if m == row]
    card: Mapping[str, Any] = next((result.model_card for result in results if result.model_card), {})
    rates = [r.provenance["throughput"] for r in results if _is_number(r.provenance.get("throughput"))]
    return {
        "name": cut(model.name, 500),
        "pretrained": "" if model.pretrained == model.name else cut(model.pretrained, 500),
        "suffix": cut(model.suffix, 500),
        "label": cut(model.label, 1000),
        "origin": model.origin,
        "family": cut(str(card.get("family", "")), 100),
        "parameters": card.get("parameters") if _is_number(card.get("parameters")) else None,
        "image_size": card.get("image_size") if _is_number(card.get("image_size")) else None,
        "throughput": round(sum(rates) / len(rates), 3) if rates else None,
    }


def _benchmark(table: Table, b: int, gathered: _Gathered) -> dict[str, Any]:
    benchmark = table.benchmarks[b]
    results = table.results_of(b)
    metrics = table.metrics_of(b)
    chance = [chance_of(table, Column(b, metric)) for metric in metrics]
    return {
        "dataset": cut(benchmark.dataset, 500),
        "task": benchmark.task,
        "language": benchmark.language,
        "kind": benchmark.kind,
        "label": cut(benchmark.label, 500),
        "split": next((str(r.data["split"]) for r in results.values() if r.data.get("split")), ""),
        "n": max((int(r.counts.get("scored", 0)) for r in results.values()), default=0),
        "metrics": metrics,
        "short": [metric_label(metric) for metric in metrics],
        "main": [metrics.index(metric) for metric in table.main[b] if metric in metrics],
        "chance": [None if value is None else round(value, 6) for value in chance],
        "marks": [gathered.marks.get((b, metric), {}) for metric in metrics],
        "form": gathered.chunks[b].get("form", ""),
    }


def _result(table: Table, m: int, b: int) -> list[Any]:
    """One result as a row: model, benchmark, values, low ends, high ends, warnings, failures, what differs."""
    result = table.cells[m, b].result
    metrics = table.metrics_of(b)
    ends = [result.intervals.get(metric, (None, None)) for metric in metrics]
    main = table.main[b]
    reference = leader_of(table, Column(b, main[0])) if main else None
    other = [] if reference is None else differences(table.cells[reference, b].result, result)
    return [
        m,
        b,
        [result.metrics.get(metric) for metric in metrics],
        [_short(low) for low, _ in ends],
        [_short(high) for _, high in ends],
        len(result.notices),
        len(result.failures),
        other,
    ]


def _pairs(table: Table, gathered: _Gathered) -> list[dict[str, Any]]:
    place = {benchmark: i for i, benchmark in enumerate(table.benchmarks)}
    return [
        {
            "a": first,
            "b": second,
            "lines": [_difference(line, place[line.benchmark]) for line in correct_for_many(lines)],
        }
        for (first, second), lines in gathered.lines.items()
    ]


def _difference(line: Difference, benchmark: int) -> list[Any]:
    numbers = (line.first, line.second, line.difference, line.low, line.high)
    return [
        benchmark,
        line.metric,
        *(_short(value) for value in numbers),
        float(f"{line.p_holm:.3g}"),
        line.test,
        line.n,
        line.units,
        line.only_first,
        line.only_second,
        _short(line.detectable),
        line.verdict,
    ]


def _published(name: str, table: Table) -> dict[str, Any]:
    return {
        "name": name,
        "tables": [
            {"title": part.title, "groups": part.groups, "header": part.header, "rows": part.rows}
            for part in published_tables(name, table)
        ],
    }


def _notices(table: Table, skipped: Sequence[Skipped]) -> list[str]:
    notices = [f"{cut(item.reason, 300)}" for item in skipped[:20]]
    if len(skipped) > 20:
        notices.append(f"{len(skipped) - 20} more files are not results.")
    for item in table.replaced[:20]:
        result = item.result
        notices.append(
            f"{result.model} {result.pretrained} on {result.dataset} ({result.language}) occurs more than once: "
            "the newest result is shown."
        )
    return notices


def _short(value: float | None) -> float | None:
    return None if value is None else round(value, 5)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
