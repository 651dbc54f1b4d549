"""``eyechart compare``: paired comparison of models on the same samples."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from eyechart.cli.parts.results import REFERENCES, arrange, load, named_or_default, save
from eyechart.errors import UsageError, unknown_name
from eyechart.io.json_text import to_json
from eyechart.io.terminal import width_of, write_message, write_output

if TYPE_CHECKING:
    from eyechart.report.compare import Difference, PairwiseComparison
    from eyechart.report.ranking import SuiteRanking
    from eyechart.report.table import ResultTable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "files", nargs="*", help="result files or folders; the first one's model is the baseline; default: results/"
    )
    parser.add_argument("--baseline", help="the model that the others are compared with, as named in the tables")
    parser.add_argument("--metric", help="this metric instead of each benchmark's primary ones")
    parser.add_argument(
        "--allow-different",
        nargs="+",
        default=[],
        metavar="ASPECT",
        help="what differs on purpose: prompts, training, metric, 'task version', samples, judge, 'judge prompt', "
        "extractor, 'stored vectors'",
    )
    parser.add_argument(
        "--reference",
        nargs="+",
        default=[],
        metavar="NAME",
        help="rank among published models: " + ", ".join(REFERENCES),
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--output", "-o", help="write the JSON to this file as well")


def run(args: argparse.Namespace) -> int:
    """Compare and show."""
    from eyechart.report.compare import compare
    from eyechart.report.pairing import RecordsCache
    from eyechart.report.ranking import rank_models
    from eyechart.report.standing import published_standings
    from eyechart.report.standing_text import standings_json, standings_text

    _check_aspects(args.allow_different)
    files = named_or_default(args.files)
    found = load(files).found
    table = arrange(found)
    baseline = _baseline(table, args.baseline, files[0])
    others = [row for row in range(len(table.models)) if row != baseline]
    if not others and not args.reference:
        raise UsageError(
            f"Only one model is there: {table.models[baseline].label}.",
            advice="Give results of at least two models, or published ones: --reference open_clip.",
        )
    others = _comparable(table, baseline, others)
    published = published_standings(found, args.reference) if args.reference else None
    cache = RecordsCache(table)
    comparisons = []
    for row in others:
        try:
            one = compare(table, baseline, row, metric=args.metric, allow=args.allow_different, cache=cache)
        except UsageError as error:
            if not published:
                raise
            write_message(f"not compared: {error.message}\n", sys.stderr)  # each is ranked all the same
        else:
            comparisons.append(one)
    ranking = rank_models(table, cache, args.metric)
    body = _to_json(table, comparisons, ranking) | ({"published": standings_json(*published)} if published else {})
    as_json = to_json(body, indent=1) + "\n"
    if args.output:
        save(args.output, as_json.encode("utf-8", "backslashreplace"))
    text = _to_text(table, comparisons, ranking)
    if published:
        text = "\n".join(filter(None, (text, standings_text(*published, width_of(sys.stdout)))))
    write_output(as_json if args.json else text, sys.stdout)
    return 0


def _comparable(table: ResultTable, baseline: int, others: list[int]) -> list[int]:
    """Leave out models that have no benchmark in common with the baseline, and say so, if others have one."""
    known = {benchmark for model, benchmark in table.cells if model == baseline}
    shared = [row for row in others if any((row, benchmark) in table.cells for benchmark in known)]
    for row in (row for row in others if shared and row not in shared):
        label = table.models[row].label
        write_message(f"left out: {label} has no benchmark in common with {table.models[baseline].label}\n", sys.stderr)
    return shared or others


def _check_aspects(allowed: list[str]) -> None:
    from eyechart.report.pairing import ASPECTS, UNPAIRABLE

    for aspect in allowed:
        if aspect not in ASPECTS:
            raise unknown_name("aspect", aspect, ASPECTS)
        if aspect in UNPAIRABLE:
            raise UsageError(f"Results of another {aspect} have no samples in common, so they cannot be paired.")


def _baseline(table: ResultTable, wanted: str | None, first_argument: str) -> int:
    """Find the row to compare with: the one asked for, else the first argument's."""
    if wanted is None:
        rows = [m for (m, _), found in table.cells.items() if found.argument == first_argument]
        if not rows:
            raise UsageError(f"No result to compare with in {first_argument}.", advice="Name it first, or --baseline.")
        return min(rows)
    labels = {model.label: row for row, model in enumerate(table.models)}
    by_name = {model.name: row for row, model in enumerate(table.models)}
    if wanted not in labels and wanted not in by_name:
        raise unknown_name("model", wanted, labels)
    return labels.get(wanted, by_name.get(wanted, 0))


def _to_json(table: ResultTable, comparisons: list[PairwiseComparison], ranking: SuiteRanking | None) -> dict[str, Any]:
    body: dict[str, Any] = {
        "level": 0.95,
        "comparisons": [
            {
                "baseline": table.models[comparison.first].label,
                "model": table.models[comparison.second].label,
                "lines": [_line(line) for line in comparison.lines],
                "unpaired": list(comparison.unpaired),
            }
            for comparison in comparisons
        ],
    }
    if ranking is not None:
        body["ranking"] = {
            "benchmarks": [table.benchmarks[b].label for b in ranking.benchmarks],
            "models": [
                {"model": table.models[m].label, "mean": mean, "rank_low": low, "rank_high": high}
                for m, mean, (low, high) in zip(ranking.models, ranking.means, ranking.ranks, strict=True)
            ],
        }
    return body


def _line(line: Difference) -> dict[str, Any]:
    from dataclasses import asdict

    body = asdict(line)
    paired = body.pop("paired")
    return {**body, **paired, "verdict": line.verdict}


def _to_text(table: ResultTable, comparisons: list[PairwiseComparison], ranking: SuiteRanking | None) -> str:
    from eyechart.report.words import comparison_text, ranking_text

    width = width_of(sys.stdout)
    parts = [comparison_text(table, comparison, width) for comparison in comparisons]
    if ranking is not None:
        parts.append(ranking_text(table, ranking, width))
    return "\n".join(parts)
