"""``eyechart demo``: `eval` on the embedded models and data."""

from __future__ import annotations

import argparse
import shlex
import sys

from eyechart.io.terminal import write_message

COMMAND = (
    "eval demo/garments demo/scenes eyechart-tiny eyechart-tiny-int8 "
    "--language en de --recall-k 1 5 10 --thumbnails 150"
)
OUTPUT = "{output}/{{dataset}}_{{model}}_{{language}}_{{task}}.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--output", default="outputs/demo", help="folder for the results")
    parser.add_argument("--quiet", action="store_true", help="show no progress")


def run(args: argparse.Namespace) -> int:
    """Print the equivalent `eval` command and run it."""
    from eyechart.cli import main

    words = [*shlex.split(COMMAND), "--output", OUTPUT.format(output=args.output)]
    if args.quiet:
        words.append("--quiet")
    else:
        write_message("$ eyechart {words}\n\n", sys.stdout, words=shlex.join(words))
    code = main(words)
    return code or main(["report", args.output, "--output", f"{args.output}/report.html", "--title", "Eyechart demo"])
