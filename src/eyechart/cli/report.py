"""``eyechart report``: results to one HTML page."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from eyechart.cli.parts.results import REFERENCES, named_or_default, save
from eyechart.errors import ResultError, UsageError
from eyechart.io.terminal import write_message

if TYPE_CHECKING:
    from eyechart.report.page.payload import Payload


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("files", nargs="*", help="result files, or folders (searched to any depth); default: results/")
    parser.add_argument("--output", "-o", default="report.html", help="where the page goes")
    add_page_arguments(parser)


def add_page_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags that ``report`` and ``serve`` share."""
    add = parser.add_argument
    add(
        "--reference",
        nargs="+",
        default=[],
        metavar="NAME",
        help=f"published results to show beside: {', '.join(REFERENCES)}",
    )
    add("--title", default="Eyechart report", help="heading of the page")
    add("--no-images", action="store_true", help="leave thumbnails out")
    add("--max-images", type=int, default=200, help="thumbnails for each benchmark")
    add("--max-samples", type=int, default=50_000, help="samples listed for each benchmark")


def run(args: argparse.Namespace) -> int:
    """Write the page and say where it is."""
    from eyechart.report.page import make_page

    args.files = named_or_default(args.files)
    if not args.files and not args.reference:
        raise UsageError(
            "There is nothing to report.", advice="Give result files or folders, or --reference open_clip."
        )
    payload = payload_of(args)
    page = make_page(payload)
    save(args.output, page)
    for line in payload.overview["notices"]:
        write_message(f"{line}\n", sys.stderr)
    results = len(payload.overview["results"]) or payload.published.get("results", 0)
    write_message(f"{results} results, {len(page) / 1e6:.1f} MB -> {args.output}\n", sys.stdout)
    return 0


def payload_of(args: argparse.Namespace, *, may_be_empty: bool = False) -> Payload:
    """Read the results that the arguments name and make the data of the page."""
    import eyechart
    from eyechart.report.load import Loaded, load_results
    from eyechart.report.page.limits import Limits
    from eyechart.report.page.payload import make_payload

    loaded = Loaded(())
    if args.files:
        try:
            loaded = load_results(args.files)
        except ResultError:
            if not may_be_empty:
                raise
    return make_payload(
        loaded.found,
        skipped=loaded.skipped,
        references=args.reference,
        title=args.title,
        limits=Limits(samples=args.max_samples, images=0 if args.no_images else args.max_images),
        version=eyechart.__version__,
    )
