"""``eyechart build``: combine result files into one table."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from eyechart.cli.result_arguments import arrange, load, named_or_default, report_defects, save
from eyechart.errors import UsageError
from eyechart.io.terminal import width_of, write_message, write_output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments, which include those of ``clip_benchmark build``."""
    parser.add_argument("files", nargs="*", help="result files or folders, searched recursively; default: results/")
    parser.add_argument("--output", "-o", default="benchmark.csv", help="output file; - for the terminal")
    parser.add_argument(
        "--format",
        choices=("csv", "text", "markdown", "latex", "parquet"),
        help="default: from the output's suffix, else csv; text on a terminal",
    )
    parser.add_argument(
        "--layout", choices=("rows", "matrix"), default="rows", help="one row per result, or models x benchmarks"
    )
    parser.add_argument(
        "--intervals", action="store_true", help="add intervals: both ends, or the half-width in a matrix"
    )
    parser.add_argument("--metric", help="matrix: metric instead of each benchmark's primary ones")
    parser.add_argument(
        "--average",
        choices=("plain", "kind", "rank", "chance"),
        default="plain",
        help="matrix: average in the last column",
    )
    parser.add_argument("--digits", type=int, default=1, choices=range(16), metavar="N", help="matrix: decimal places")


def run(args: argparse.Namespace) -> int:
    """Write the table and print a summary."""
    from eyechart.report.table_formats import FORMATS, SUFFIXES, matrix, not_comparable, result_rows, to_text

    loaded = load(named_or_default(args.files))
    report_defects(loaded.found)
    if args.layout == "matrix":
        table = arrange(loaded.found)
        columns = table.columns(args.metric)
        if not columns:
            raise UsageError(
                "No result has the metric {metric!r}.",
                advice="Omit {--metric} for the primary metrics.",
                metric=args.metric,
            )
        grid = matrix(table, columns, how=args.average, digits=args.digits, intervals=args.intervals)
        for line in not_comparable(table, columns):
            write_message("{line}\n", sys.stderr, line=line)
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
    write_message(
        "{n} results, {rows} rows -> {path}\n", sys.stdout, n=len(loaded.found), rows=len(grid.rows), path=args.output
    )
    return 0
