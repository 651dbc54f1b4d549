"""``eyechart list``: the datasets, model types and tasks that are known by name."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("what", choices=["datasets", "models", "generators", "tasks"], help="what to list")
    parser.add_argument("--kind", help="only datasets of this kind: classification, retrieval, MCQ, Y/N, VQA, ...")
    parser.add_argument(
        "--needs-judge",
        choices=["yes", "no"],
        help="only questions to models that write: those that nothing but a judge can score, or the others",
    )


def run(args: argparse.Namespace) -> int:
    """Print one line each: name, kind, judge, what it is."""
    from eyechart import plugins

    if args.what != "datasets":
        sys.stdout.write("".join(f"{name}\n" for name in plugins.names(args.what)))
        return 0
    rows = [
        (name, kind, judge, about)
        for name, kind, judge, about in _datasets()
        if (args.kind is None or kind == args.kind)
        and (args.needs_judge is None or (judge != "" and (judge == "required") == (args.needs_judge == "yes")))
    ]
    widths = [max((len(row[i]) for row in rows), default=0) for i in range(3)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=False))
        sys.stdout.write("  ".join((*cells, row[3])).rstrip() + "\n")
    return 0


def _datasets() -> Iterator[tuple[str, str, str, str]]:
    """Yield name, kind, whether a judge is asked (no, optional, required; empty where none can be) and a title."""
    from eyechart import vlm
    from eyechart.datasets.catalogue.load import load_catalogue, user_files
    from eyechart.vlm.benchmarks import known_benchmarks

    for entry in load_catalogue(user_files()).entries.values():
        yield entry.name, entry.kind, "", entry.title
    for benchmark in known_benchmarks().values():
        kind = getattr(vlm, benchmark.dataset_class).TYPE
        yield benchmark.name, kind, benchmark.judge, benchmark.about
