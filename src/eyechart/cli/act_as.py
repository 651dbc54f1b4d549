"""``eyechart as PACKAGE SCRIPT``: run a script of another tool with its imports served by Eyechart."""

from __future__ import annotations

import argparse

from eyechart.errors import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    from eyechart.compat.acting import SURFACES

    parser.add_argument("package", choices=sorted(SURFACES), help="the package that the script imports")
    parser.add_argument(
        "words", nargs=argparse.REMAINDER, metavar="SCRIPT | -m MODULE [ARGS]", help="as after `python`"
    )


def run(args: argparse.Namespace) -> int:
    """Serve the package's names, then run the script or module."""
    from eyechart.compat.acting import act_as, run_module, run_script

    module = args.words[:1] == ["-m"]
    if len(args.words) <= module:
        raise UsageError(
            "There is nothing to run.", advice=f"Write: eyechart as {args.package} SCRIPT [ARGS], or -m MODULE [ARGS]"
        )
    act_as(args.package)
    if module:
        return run_module(args.words[1], args.words[2:])
    run_script(args.words[0], args.words[1:])
    return 0
