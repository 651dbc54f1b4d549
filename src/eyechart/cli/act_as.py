"""``eyechart as PACKAGE SCRIPT``: run a script written for another tool with its imports served by Eyechart."""

import argparse

from eyechart.compat.import_shim import SURFACES, run_module, run_script, serve
from eyechart.errors import UsageError

SURFACES["clip_benchmark"] |= {
    "clip_benchmark.cli": (
        "eyechart.cli.clip_benchmark",
        "eyechart.compat.clip_benchmark.datasets",
        "eyechart.compat.clip_benchmark.models",
    ),
    "clip_benchmark.webdataset_builder": (
        "eyechart.compat.clip_benchmark.datasets",
        "main=eyechart.cli:main_export_wds",
    ),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("package", choices=sorted(SURFACES), help="package that the script imports")
    parser.add_argument(
        "words", nargs=argparse.REMAINDER, metavar="SCRIPT | -m MODULE [ARGS]", help="arguments as for `python`"
    )


def run(args: argparse.Namespace) -> int:
    """Install the import shim, then run the script or module."""
    module = args.words[:1] == ["-m"]
    if len(args.words) <= module:
        advice = "Usage: eyechart as {package} SCRIPT [ARGS], or -m MODULE [ARGS]"
        raise UsageError("No script or module given.", advice=advice, package=args.package)
    serve(args.package)
    if module:
        return run_module(args.words[1], args.words[2:])
    run_script(args.words[0], args.words[1:])
    return 0
