"""``eyechart build``: combine result files into one table."""

import argparse
import sys
from pathlib import Path

from eyechart.cli.result_arguments import arrange, load, named_or_default, report_defects, save
from eyechart.errors import UsageError
from eyechart.io.terminal import width_of, write_message, write_output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments, which include those of ``clip_benchmark build``."""
    add = parser.add_argument
    add("files", nargs="*", help="result files or folders, searched recursively; default: results/")
    add("--output", "-o", default="benchmark.csv", help="output file; - for the terminal")
    about = "default: from the output's suffix, else csv; text on a terminal"
    add("--format", choices=("csv", "text", "markdown", "latex", "parquet"), help=about)
    add("--layout", choices=("rows", "matrix"), default="rows", help="one row per result, or models x benchmarks")
    add("--intervals", action="store_true", help="add intervals: both ends, or the half-width in a matrix")
    add("--metric", help="matrix: metric instead of each benchmark's primary ones")
    about = "matrix: average in the last column"
    add("--average", choices=("plain", "kind", "rank", "chance"), default="plain", help=about)
    add("--digits", type=int, default=1, choices=range(16), metavar="N", help="matrix: decimal places")


def run(args: argparse.Namespace) -> int:
    """Write the table and print a summary."""
    from eyechart.report.paired_records import RecordsCache
    from eyechart.report.table_formats import FORMATS, SUFFIXES, matrix, not_comparable, result_rows, to_text
    from eyechart.report.verdict import make_verdict

    shown = args.output == "-" and sys.stdout.isatty()
    kind = args.format or SUFFIXES.get(Path(args.output).suffix.lower(), "text" if shown else "csv")
    loaded = load(named_or_default(args.files))
    report_defects(loaded.found)
    if args.layout == "matrix":
        table = arrange(loaded.found)
        columns = table.columns(args.metric)
        if not columns:
            advice = "Omit {--metric} for the primary metrics."
            raise UsageError("No result has the metric {metric!r}.", advice=advice, metric=args.metric)
        verdict = None if kind in ("csv", "parquet") else make_verdict(RecordsCache(table, strict=False), args.metric)
        settings = {"how": args.average, "digits": args.digits, "intervals": args.intervals}
        grid = matrix(table, columns, verdict=verdict, **settings)
        for line in not_comparable(table, columns):
            write_message("{line}\n", sys.stderr, line=line)
    else:
        grid = result_rows(loaded.found, intervals=args.intervals)
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
