"""``eyechart report``: write results as one HTML page."""

from __future__ import annotations

import argparse
import sys
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING

from eyechart.cli.result_arguments import REFERENCES, named_or_default, save
from eyechart.errors import ResultError, UsageError
from eyechart.io.terminal import write_message
from eyechart.messages import UserMessage

if TYPE_CHECKING:
    from eyechart.report.page.payload import Payload


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("files", nargs="*", help="result files or folders, searched recursively; default: results/")
    parser.add_argument("--output", "-o", default="report.html", help="output file")
    add_page_arguments(parser)


def add_page_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that ``report`` and ``serve`` share."""
    add = parser.add_argument
    add(
        "--reference",
        nargs="+",
        default=[],
        metavar="NAME",
        help=UserMessage("published results to show for comparison: {names}", names=", ".join(REFERENCES)),
    )
    add("--title", default="Eyechart report", help="heading of the page")
    add("--no-images", action="store_true", help="omit thumbnails")
    add("--max-images", type=int, default=200, help="thumbnails per benchmark")
    add("--max-samples", type=int, default=50_000, help="samples listed per benchmark")


def run(args: argparse.Namespace) -> int:
    """Write the page and print its path."""
    from eyechart.report.page import make_page

    args.files = named_or_default(args.files)
    if not args.files and not args.reference:
        raise UsageError("No results given.", advice="Give result files or folders, or --reference open_clip.")
    payload = payload_of(args)
    page = make_page(payload)
    save(args.output, page)
    for line in payload.overview["notices"]:
        write_message("{line}\n", sys.stderr, line=line)
    results = len(payload.overview["results"]) or payload.published.get("results", 0)
    write_message(
        "{n} results, {size:.1f} MB -> {path}\n", sys.stdout, n=results, size=len(page) / 1e6, path=args.output
    )
    return 0


def payload_of(args: argparse.Namespace, *, may_be_empty: bool = False) -> Payload:
    """Load the given results and build the data of the page."""
    import eyechart
    from eyechart.report.loader import LoadedResults, load_results
    from eyechart.report.page.overview import Limits
    from eyechart.report.page.payload import make_payload

    loaded = LoadedResults(())
    if args.files:
        with suppress(ResultError) if may_be_empty else nullcontext():
            loaded = load_results(args.files)
    return make_payload(
        loaded.found,
        skipped=loaded.skipped,
        references=args.reference,
        title=args.title,
        limits=Limits(samples=args.max_samples, images=0 if args.no_images else args.max_images),
        version=eyechart.__version__,
    )
