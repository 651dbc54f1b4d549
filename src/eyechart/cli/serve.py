"""``eyechart serve``: the report on loopback, kept up to date while a run is going on."""

from __future__ import annotations

import argparse
import sys

from eyechart.cli.parts.results import FOLDER, named_or_default
from eyechart.cli.report import add_page_arguments, payload_of
from eyechart.io.terminal import write_message


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("files", nargs="*", help="result files, or folders (searched to any depth); default: results/")
    parser.add_argument("--port", type=int, default=8000, help="port on loopback, 0 for any free one")
    parser.add_argument("--no-browser", action="store_true", help="do not open a browser")
    add_page_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Serve until interrupted."""
    import webbrowser
    from pathlib import Path

    from eyechart.errors import UsageError
    from eyechart.report.page import make_page
    from eyechart.report.page.serve import HOST, LiveResults, make_server

    args.files = named_or_default(args.files) or [FOLDER]
    for name in args.files:
        if not Path(name).exists():
            raise UsageError(f"There is no file or folder {name}.", advice="Give the folder that a run writes to.")
    source = LiveResults(args.files, lambda: make_page(payload_of(args, may_be_empty=True), live=True))
    try:
        server = make_server(source, args.port)
    except OSError as error:
        raise UsageError(f"Port {args.port} cannot be used ({error.strerror}).", advice="Try --port 0.") from error
    address = f"http://{HOST}:{server.server_port}/"
    write_message(f"{address}  (stop with Ctrl-C)\n", sys.stdout)
    if not args.no_browser:
        webbrowser.open(address)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        write_message("stopped\n", sys.stdout)
    finally:
        server.server_close()
    return 0
