"""``eyechart build``: result files to one table."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from eyechart.cli.parts.results import arrange, load, named_or_default, save, say_what_is_missing
from eyechart.errors import UsageError
from eyechart.io.terminal import width_of, write_message, write_output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags; ``clip_benchmark build`` has the same."""
    parser.add_argument("files", nargs="*", help="result files, or folders (searched to any depth); default: results/")
    parser.add_argument("--output", "-o", default="benchmark.csv", help="where the table goes; - for the terminal")
    parser.add_argument(
        "--format",
        choices=("csv", "text", "markdown", "latex", "parquet"),
        help="default: by the output's suffix, else csv; text on a terminal",
    )
    parser.add_argument(
        "--layout", choices=("rows", "matrix"), default="rows", help="one row per result, or models x benchmarks"
    )
    parser.add_argument(
        "--intervals", action="store_true", help="add intervals: their ends, or in a matrix how far they reach"
    )
    parser.add_argument("--metric", help="matrix: this metric instead of each benchmark's primary ones")
    parser.add_argument(
        "--average", choices=("plain", "kind", "rank", "chance"), default="plain", help="matrix: the last column"
    )
    parser.add_argument(
        "--digits", type=int, default=1, choices=range(16), metavar="N", help="matrix: digits after the point"
    )


def run(args: argparse.Namespace) -> int:
    """Write the table and say what went into it."""
    from eyechart.report.formats import FORMATS, SUFFIXES, matrix, not_comparable, result_rows, to_text

    loaded = load(named_or_default(args.files))
    say_what_is_missing(loaded.found)
    if args.layout == "matrix":
        table = arrange(loaded.found)
        columns = table.columns(args.metric)
        if not columns:
            raise UsageError(
                f"No result has the metric {args.metric!r}.", advice="Leave --metric out for the primary ones."
            )
        grid = matrix(table, columns, how=args.average, digits=args.digits, intervals=args.intervals)
        for line in not_comparable(table, columns):
            write_message(f"{line}\n", sys.stderr)
    else:
        grid = result_rows(loaded.found, intervals=args.intervals)
    shown = args.output == "-" and sys.stdout.isatty()
    kind = args.format or SUFFIXES.get(Path(args.output).suffix.lower(), "text" if shown else "csv")
    data = to_text(grid, width_of(sys.stdout)) if shown and kind == "text" else FORMATS[kind](grid)
    if shown:
        write_output(data.decode("utf-8", "replace"), sys.stdout)
        return 0
    if args.output == "-":
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return 0
    save(args.output, data)
    write_message(f"{len(loaded.found)} results, {len(grid.rows)} rows -> {args.output}\n", sys.stdout)
    return 0
