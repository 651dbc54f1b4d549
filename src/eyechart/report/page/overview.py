"""What the page needs to know at once: models, benchmarks and results, without their samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eyechart.io.untrusted import is_number
from eyechart.report.formats import metric_label
from eyechart.report.page.limits import cut, short
from eyechart.report.pairing import differing
from eyechart.report.table import Column, ResultTable, lost_samples


def describe_model(table: ResultTable, row: int) -> dict[str, Any]:
    """Return what is known of a row."""
    model = table.models[row]
    results = [table.cells[row, b].result for b in range(len(table.benchmarks)) if (row, b) in table.cells]
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
        "gflops": card.get("gflops") if is_number(card.get("gflops")) else None,
        "image_size": card.get("image_size") if is_number(card.get("image_size")) else None,
        "throughput": round(sum(rates) / len(rates), 3) if rates else None,
    }


def describe_benchmark(table: ResultTable, b: int, marks: Mapping[tuple[int, str], Any]) -> dict[str, Any]:
    """Return what is known of a benchmark and of its metrics."""
    benchmark = table.benchmarks[b]
    results = table.by_benchmark[b].values()
    metrics = table.metrics_of(b)
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
        "marks": [marks.get((b, metric), {}) for metric in metrics],
    }


def describe_result(table: ResultTable, m: int, b: int) -> list[Any]:
    """One result as a row: model, benchmark, values, low ends, high ends, warnings, fewer samples, what differs."""
    result = table.cells[m, b].result
    found = [result.values.get(metric) for metric in table.metrics_of(b)]
    return [
        m,
        b,
        [metric and metric.value for metric in found],
        [metric and short(metric.low) for metric in found],
        [metric and short(metric.high) for metric in found],
        len(result.notices),
        lost_samples(result),
        differing(table, m, b),
    ]
