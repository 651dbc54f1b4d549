"""``eyechart serve``: serve the report on loopback, updated during a run."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from eyechart.cli.report import add_page_arguments, payload_of
from eyechart.cli.result_arguments import FOLDER, named_or_default
from eyechart.io.terminal import write_message

if TYPE_CHECKING:
    from eyechart.report.page.html import LiveResults


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add = parser.add_argument
    add("files", nargs="*", help="result files or folders, searched recursively; default: results/")
    add("--port", type=int, default=8000, help="port on loopback, 0 for any free port")
    add("--no-browser", action="store_true", help="do not open a browser")
    add_page_arguments(parser)


def live_results(args: argparse.Namespace) -> LiveResults:
    """Return the results to serve, and the images that the page may request."""
    from eyechart.report.page.html import LiveResults, make_page
    from eyechart.report.page.originals import OriginalImages

    images = OriginalImages(args.images)
    offer = images.offer if args.images else None
    return LiveResults(
        args.files, lambda: make_page(payload_of(args, may_be_empty=True, offer=offer), live=True), images
    )


def run(args: argparse.Namespace) -> int:
    """Serve until interrupted."""
    import webbrowser
    from pathlib import Path

    from eyechart.errors import UsageError
    from eyechart.report.page.html import HOST, make_server

    args.files = named_or_default(args.files) or [FOLDER]
    for name in args.files:
        if not Path(name).exists():
            raise UsageError("File or folder not found: {path}.", advice="Give the output folder of a run.", path=name)
    source = live_results(args)
    try:
        server = make_server(source, args.port)
    except OSError as error:
        raise UsageError(
            "Cannot use port {port} ({reason}).", advice="Try --port 0.", port=args.port, reason=error.strerror
        ) from error
    address = f"http://{HOST}:{server.server_port}/"
    write_message("{address}  (stop with Ctrl-C)\n", sys.stdout, address=address)
    if not args.no_browser:
        webbrowser.open(address)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        write_message("stopped\n", sys.stdout)
    finally:
        server.server_close()
    return 0
