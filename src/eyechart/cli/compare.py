"""``eyechart compare``: paired comparison of models on the same samples."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from eyechart.cli.result_arguments import REFERENCES, arrange, load, named_or_default, save
from eyechart.errors import UsageError, unknown_name
from eyechart.io.safe_parse import to_json
from eyechart.io.terminal import translate, width_of, write_message, write_output
from eyechart.messages import UserMessage

if TYPE_CHECKING:
    from eyechart.report.comparison import PairwiseComparison
    from eyechart.report.result_table import ResultTable
    from eyechart.report.verdict import Verdict


NOTHING = "No published result shares a benchmark with these results."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add = parser.add_argument
    add("files", nargs="*", help="result files or folders, the baseline's first; default: results/")
    add("--baseline", help="model to compare the others with, as named in the tables")
    add("--metric", help="metric instead of each benchmark's primary ones")
    about = (
        "aspects that may differ: prompts, training, metric, 'task version', samples, judge, 'judge prompt', "
        "extractor, 'stored vectors'"
    )
    add("--allow-different", nargs="+", default=[], metavar="ASPECT", help=about)
    known = UserMessage("rank among published models: {names}", names=", ".join(REFERENCES))
    add("--reference", nargs="+", default=[], metavar="NAME", help=known)
    add("--json", action="store_true", help="print JSON instead of a table")
    add("--output", "-o", help="also write the JSON to this file")


def run(args: argparse.Namespace) -> int:
    """Compare and print."""
    from eyechart.report import compare_text
    from eyechart.report.collection_means import means_json
    from eyechart.report.comparison import compare, correct_jointly
    from eyechart.report.leaderboard import published_positions
    from eyechart.report.paired_records import RecordsCache, check_aspects
    from eyechart.report.verdict import make_verdict

    check_aspects(args.allow_different)
    files = named_or_default(args.files)
    found = load(files).found
    table = arrange(found)
    baseline = _baseline(table, args.baseline, files[0])
    others = [row for row in range(len(table.models)) if row != baseline]
    if not others and not args.reference:
        advice = "Give results of at least two models, or compare with published ones: --reference open_clip."
        raise UsageError("Only one model found: {model}.", advice=advice, model=table.models[baseline].label)
    others = _comparable(table, baseline, others)
    published = published_positions(found, args.reference) if args.reference else None
    cache = RecordsCache(table, allow=args.allow_different)
    comparisons = []
    for row in others:
        try:
            comparisons.append(compare(cache, baseline, row, metric=args.metric, allow=args.allow_different))
        except UsageError as error:
            if not published:
                raise
            # The model is still ranked among the published ones.
            write_message("not compared: {reason}\n", sys.stderr, reason=error.message)
    comparisons = correct_jointly(comparisons)
    verdict = make_verdict(cache, args.metric)
    body = _to_json(table, comparisons, verdict) | (
        {"published": compare_text.positions_json(*published)} if published else {}
    )
    if means := means_json(table):
        body |= {"collections": {"models": [model.label for model in table.models], "means": means}}
    as_json = to_json(body, indent=1) + "\n"
    if args.output:
        save(args.output, as_json.encode("utf-8", "backslashreplace"))
    width = width_of(sys.stdout)
    parts = [compare_text.verdict_text(table, verdict, width)] if len(table.models) > 1 else []
    parts += [compare_text.comparison_text(table, comparison, width) for comparison in comparisons]
    parts += compare_text.collections_text(table, width)
    if published:
        among, positions = published
        parts += [compare_text.position_text(among, one, width) for one in positions] or [f"{translate(NOTHING)}\n"]
    write_output(as_json if args.json else "\n".join(parts), sys.stdout)
    return 0


def _comparable(table: ResultTable, baseline: int, others: list[int]) -> list[int]:
    """Skip models without a benchmark in common with the baseline, with a message, unless none has one."""
    known = {benchmark for model, benchmark in table.cells if model == baseline}
    shared = [row for row in others if any((row, benchmark) in table.cells for benchmark in known)]
    text = "skipped: {model} has no benchmark in common with {other}\n"
    for row in (row for row in others if shared and row not in shared):
        write_message(text, sys.stderr, model=table.models[row].label, other=table.models[baseline].label)
    return shared or others


def _baseline(table: ResultTable, wanted: str | None, first_argument: str) -> int:
    """Return the row of the baseline: the named model, else that of the first argument."""
    if wanted is None:
        rows = [m for (m, _), found in table.cells.items() if found.argument == first_argument]
        if not rows:
            raise UsageError(
                "No baseline result in {path}.", advice="Give it first, or use --baseline.", path=first_argument
            )
        return min(rows)
    labels = {model.label: row for row, model in enumerate(table.models)}
    named = {model.name: row for row, model in enumerate(table.models)} | labels
    if wanted not in named:
        raise unknown_name("model", wanted, labels)
    return named[wanted]


def _to_json(table: ResultTable, comparisons: list[PairwiseComparison], verdict: Verdict) -> dict[str, Any]:
    body: dict[str, Any] = {"level": 0.95, "comparisons": []}
    for comparison in comparisons:
        lines = []
        for line in comparison.lines:
            fields = asdict(line)
            paired = fields.pop("paired")
            lines.append({**fields, **paired, "verdict": line.verdict})
        body["comparisons"].append(
            {
                "baseline": table.models[comparison.first].label,
                "model": table.models[comparison.second].label,
                "lines": lines,
                "unpaired": list(comparison.unpaired),
                "tests": comparison.tests,
            }
        )
    body["verdict"] = {
        "sentences": list(map(str, verdict.sentences)),
        "averages": [
            {"model": table.models[m].label, **asdict(average)} for m, average in sorted(verdict.averages.items())
        ],
        "cells": [
            {
                "model": table.models[m].label,
                "benchmark": table.benchmarks[verdict.columns[c].benchmark].label,
                "metric": verdict.columns[c].metric,
                **asdict(cell),
            }
            for (m, c), cell in sorted(verdict.cells.items())
        ],
    }
    if (ranking := verdict.ranking) is not None:
        body["ranking"] = {
            "benchmarks": [table.benchmarks[b].label for b in ranking.benchmarks],
            "models": [
                {"model": table.models[m].label, "mean": mean, "rank_low": low, "rank_high": high}
                for m, mean, (low, high) in zip(ranking.models, ranking.means, ranking.ranks, strict=True)
            ],
        }
    return body
