"""``eyechart demo``: `eval` on the embedded models and data."""

import argparse
import shlex
import shutil
import sys
from pathlib import Path

from eyechart.io.terminal import write_message

COMMAND = (
    "eval demo/garments demo/scenes eyechart-tiny eyechart-tiny-int8 "
    "--language en de --recall-k 1 5 10 --thumbnails 150"
)
NEXT = (
    "The report: open {url} in a browser.\n"
    "Your own images: `{program} info FOLDER` describes them and prints the command that evaluates a model on them.\n"
)
OUTPUT = "{output}/{{dataset}}_{{model}}_{{language}}_{{task}}.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--output", default="outputs/demo", help="folder for the results")
    parser.add_argument("--quiet", action="store_true", help="show no progress")


def run(args: argparse.Namespace) -> int:
    """Print the equivalent `eval` command, run it, write the report, and say where it is."""
    from eyechart.cli import eval as evaluation
    from eyechart.cli import make_parser, report

    words = [*shlex.split(COMMAND), "--output", OUTPUT.format(output=args.output)]
    words += ["--quiet"] if args.quiet else []
    program = _program()
    if not args.quiet:
        write_message("$ {program} {words}\n\n", sys.stdout, program=program, words=shlex.join(words))
    code = evaluation.run(make_parser("eyechart", "eval").parse_args(words), advise=False)
    page = Path(args.output, "report.html")
    words = ["report", args.output, "--output", str(page), "--title", "Eyechart demo"]
    code = code or report.run(make_parser("eyechart", "report").parse_args(words))
    if code or args.quiet:
        return code
    write_message(NEXT, sys.stdout, url=page.resolve().as_uri(), program=program)
    if program != "eyechart" and (scripts := Path(program).with_name("activate")).is_file():
        write_message("After `source {path}` it is `eyechart`.\n", sys.stdout, path=scripts)
    return 0


def _program() -> str:
    """Return how this program is called: by its name if it is on the path."""
    called, found = Path(sys.argv[0]), shutil.which("eyechart")
    if called.name != "eyechart" or (found and called.exists() and Path(found).samefile(called)):
        return "eyechart"
    here = called.absolute()
    return str(here.relative_to(Path.cwd()) if here.is_relative_to(Path.cwd()) else here)
