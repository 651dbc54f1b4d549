"""Everything the page shows, as plain values: an overview, one chunk for each benchmark, and the comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import combinations
from typing import Any

from eyechart.errors import ResultError
from eyechart.io.untrusted import is_number
from eyechart.report.averages import AVERAGES, average
from eyechart.report.chunks import make_chunk
from eyechart.report.compare import Difference, compare_column, correct_for_many
from eyechart.report.formats import metric_label
from eyechart.report.load import Found, Skipped
from eyechart.report.pairing import RecordsCache, differences
from eyechart.report.ranking import SuiteScores, tied_with_best
from eyechart.report.reference import load_reference, published_tables
from eyechart.report.samples import Limits, cut
from eyechart.report.table import Column, ResultTable, best_of, fewer_than_listed, make_table

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
            files = ", ".join(sorted({str(result.path) for result in table.by_benchmark[benchmark].values()}))
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


def choose_pairs(table: ResultTable) -> list[tuple[int, int]]:
    """List the pairs of rows to compare: all, or those of the best models if there are too many."""
    models = sorted({m for (m, _), found in table.cells.items() if found.result.records})
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
    gathered.chunks.append(make_chunk(table.by_benchmark[benchmark], comparable, limits))


def _marks(table: ResultTable, column: Column, cache: RecordsCache) -> dict[str, Any]:
    """Say which models are best in a column and which cannot be told from the best, and how that is known."""
    lower = table.lower_is_better(column)
    best = best_of(table.values(column), lower=lower)
    if not best:
        return {}
    tied = tied_with_best(table, column, cache)
    if tied is not None:
        return {"best": best, "tied": [m for m in tied if m not in best], "how": "paired"}
    ends = {m: (x.low, x.high) for m, x in table.metrics_in(column).items() if x.low is not None and x.high is not None}
    if best[0] not in ends:
        return {"best": best, "tied": [], "how": ""}
    low, high = ends[best[0]]
    tied = [m for m, (start, end) in ends.items() if (start <= high if lower else end >= low) and m not in best]
    return {"best": best, "tied": tied, "how": "overlap"}


def _model(table: ResultTable, row: int) -> dict[str, Any]:
    model = table.models[row]
    results = [found.result for (m, _), found in sorted(table.cells.items()) if m == row]
    card: Mapping[str, Any] = next((result.model_card for result in results if result.model_card), {})
    rates = [r.provenance["throughput"] for r in results if is_number(r.provenance.get("throughput"))]
    return {
        "name": cut(model.name, 500),
        "pretrained": "" if model.pretrained == model.name else cut(model.pretrained, 500),
        "suffix": cut(model.suffix, 500),
        "label": cut(model.label, 1000),
        "origin": model.origin,
        "family": cut(str(card.get("family", "")), 100),
        "parameters": card.get("parameters") if is_number(card.get("parameters")) else None,
        "image_size": card.get("image_size") if is_number(card.get("image_size")) else None,
        "throughput": round(sum(rates) / len(rates), 3) if rates else None,
    }


def _benchmark(table: ResultTable, b: int, gathered: _Gathered) -> dict[str, Any]:
    benchmark = table.benchmarks[b]
    results = table.by_benchmark[b].values()
    metrics = table.metrics_of(b)
    columns = [Column(b, metric) for metric in metrics]
    return {
        "dataset": cut(benchmark.dataset, 500),
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
        "chance": [_short(table.known(column, "chance"), 6) for column in columns],
        "reachable": [_short(table.known(column, "best"), 6) for column in columns],
        "marks": [gathered.marks.get((b, metric), {}) for metric in metrics],
        "form": gathered.chunks[b].get("form", ""),
    }


def _result(table: ResultTable, m: int, b: int) -> list[Any]:
    """One result as a row: model, benchmark, values, low ends, high ends, warnings, fewer samples, what differs."""
    result = table.cells[m, b].result
    found = [result.values.get(metric) for metric in table.metrics_of(b)]
    leader = next((table.leader(Column(b, metric)) for metric in table.primary[b]), None)
    return [
        m,
        b,
        [metric and metric.value for metric in found],
        [metric and _short(metric.low) for metric in found],
        [metric and _short(metric.high) for metric in found],
        len(result.notices),
        fewer_than_listed(result),
        [] if leader is None else differences(table.by_benchmark[b][leader], result),
    ]


def _pairs(table: ResultTable, gathered: _Gathered) -> list[dict[str, Any]]:
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
    paired = line.paired
    return [
        benchmark,
        line.metric,
        *map(_short, (line.first, line.second, paired.difference, paired.low, paired.high)),
        float(f"{line.p_holm:.3g}"),
        paired.test,
        paired.n,
        paired.units,
        paired.only_first,
        paired.only_second,
        _short(paired.detectable),
        line.verdict,
        line.left_out,
    ]


def _published(name: str, table: ResultTable) -> dict[str, Any]:
    return {
        "name": name,
        "tables": [
            {"title": part.title, "groups": part.groups, "header": part.header, "rows": part.rows}
            for part in published_tables(name, table)
        ],
    }


def _notices(table: ResultTable, skipped: Sequence[Skipped]) -> list[str]:
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


def _short(value: float | None, digits: int = 5) -> float | None:
    return None if value is None else round(value, digits)
