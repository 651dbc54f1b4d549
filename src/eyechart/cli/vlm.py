"""``eyechart vlm``: tools for tables of questions."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from eyechart.io.terminal import write_message


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the tools."""
    tools = parser.add_subparsers(dest="tool", required=True, metavar="TOOL")
    circular = tools.add_parser("circular", help="make a circular set: every question once per rotation of its options")
    circular.add_argument("table", type=Path, help="TSV file with the columns index, question, A, B, ..., answer")
    circular.add_argument("--output", "-o", type=Path, help="default: the name with _circular, beside it")


def run(args: argparse.Namespace) -> int:
    """Run a tool."""
    from eyechart.datasets.questions.circular import make_circular

    output = args.output or args.table.with_name(f"{args.table.stem}_circular.tsv")
    made = make_circular(args.table, output)
    write_message(f"{made.questions} questions, {made.rows} rows, {made.kept} not rotated -> {output}\n", sys.stdout)
    return 0
