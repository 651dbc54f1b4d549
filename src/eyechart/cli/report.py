"""``eyechart report``: write results as one HTML page."""

from __future__ import annotations

import argparse
import sys
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from eyechart.cli.result_arguments import REFERENCES, named_or_default, save
from eyechart.errors import ResultError, UsageError
from eyechart.io.terminal import write_message
from eyechart.messages import UserMessage

if TYPE_CHECKING:
    from collections.abc import Callable

    from eyechart.report.page.payload import Payload


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add = parser.add_argument
    add("files", nargs="*", help="result files or folders, searched recursively; default: results/")
    add("--output", "-o", default="report.html", help="output file")
    about = "also write the mistakes of each result, worst first, as a CSV file with their images"
    add("--samples-to", metavar="FOLDER", type=Path, help=about)
    add_page_arguments(parser)


def add_page_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that ``report`` and ``serve`` share."""
    add = parser.add_argument
    known = UserMessage("published results to show for comparison: {names}", names=", ".join(REFERENCES))
    add("--reference", nargs="+", default=[], metavar="NAME", help=known)
    add("--title", default="Eyechart report", help="heading of the page")
    about = "folders of original images, for serve and --samples-to: files whose digest is in a record"
    add("--images", nargs="+", metavar="FOLDER", default=[], help=about)
    add("--no-images", action="store_true", help="omit thumbnails")
    add("--max-images", type=int, default=200, help="thumbnails per benchmark")
    add("--max-samples", type=int, default=50_000, help="samples listed per benchmark")


def run(args: argparse.Namespace) -> int:
    """Write the page and print its path."""
    from eyechart.report.loader import load_results
    from eyechart.report.page import make_page
    from eyechart.report.page.originals import OriginalImages, write_samples

    args.files = named_or_default(args.files)
    if not args.files and not args.reference:
        raise UsageError("No results given.", advice="Give result files or folders, or --reference open_clip.")
    payload = payload_of(args)
    page = make_page(payload)
    save(args.output, page)
    if args.samples_to:
        found = [one.result for one in load_results(args.files).found]
        n = write_samples(found, args.samples_to, OriginalImages(args.images))
        write_message("{n} samples -> {path}\n", sys.stdout, n=n, path=args.samples_to)
    for line in payload.overview["notices"]:
        write_message("{line}\n", sys.stderr, line=line)
    results = len(payload.overview["results"]) or payload.published.get("results", 0)
    write_message(
        "{n} results, {size:.1f} MB -> {path}\n", sys.stdout, n=results, size=len(page) / 1e6, path=args.output
    )
    return 0


def payload_of(
    args: argparse.Namespace, *, may_be_empty: bool = False, offer: Callable[[object], bool] | None = None
) -> Payload:
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
        limits=Limits(samples=args.max_samples, images=0 if args.no_images else args.max_images, offer=offer),
        version=eyechart.__version__,
    )
