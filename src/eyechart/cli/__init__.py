"""The command line. Arguments become settings here; the work is elsewhere, and nothing heavy is imported for help."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from eyechart.cli.flags.parser import CommandParser, HelpFormatter
from eyechart.errors import EyechartError
from eyechart.io.terminal import write_message
from eyechart.io.translate import translate
from eyechart.io.wording import as_flags

COMMANDS = {
    "eval": "evaluate models on benchmarks",
    "demo": "evaluate the embedded model on the embedded data",
    "as": "run a script of CLIP_benchmark, EvalScope or VLMEvalKit, its imports served by this package",
    "run": "run a task config: captions, image-text and text retrieval, as EvalScope's run_task",
    "list": "list datasets, models, tasks, collections and languages",
    "info": "show what is known of a dataset or a model",
    "export": "write a dataset as a webdataset folder",
    "vlm": "tools for tables of questions: circular sets",
    "build": "make one table of many results: CSV, Parquet, Markdown, LaTeX",
    "compare": "compare models on the same samples",
    "report": "make one HTML page of results",
    "serve": "show that page on loopback, kept up to date while a run is going on",
    "bench-api": "measure throughput and latency of an embedding or rerank server",
    "completion": "print a script that completes commands in bash, zsh or fish",
    "cache": "list, verify, compact or remove what is kept on this machine: vectors, answers, downloads",
    "doctor": "check the installation and say what to do",
}
"""Subcommands: each is a module of this package with ``add_arguments(parser)`` and ``run(args)``."""

INTERRUPTED = 130
NOBODY_READS = 141


def main(arguments: Sequence[str] | None = None, *, program: str = "eyechart") -> int:
    """Run a command and return its exit code: 0 all done, 1 a job failed, 2 wrong usage."""
    # Not list(...): once the command of that name has been imported, it is this package's attribute.
    words = [*(sys.argv[1:] if arguments is None else arguments)]
    parser = make_parser(program, next((word for word in words if not word.startswith("-")), None))
    try:
        args = parser.parse_args(words)
        code: int = _module_of(args.command).run(args)
    except EyechartError as error:
        write_message(f"{program}: {as_flags(error)}\n", sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        write_message(
            f"{program}: interrupted; what was computed is kept, run the same command to go on.\n", sys.stderr
        )
        return INTERRUPTED
    except BrokenPipeError:  # as with `| head`: what is left must not fail again when Python ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return NOBODY_READS
    return code


def make_parser(program: str, wanted: str | None = None) -> CommandParser:
    """Build the parser; only the wanted command's flags are added, so that others cost nothing."""
    from eyechart import __version__

    parser = CommandParser(
        prog=program, description="The vision test for vision-language models.", formatter_class=HelpFormatter
    )
    parser.set_defaults(program=program)
    parser.add_argument("--version", action="version", version=f"eyechart {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, summary in COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=_sentence(summary), formatter_class=HelpFormatter)
        if name == wanted:
            _module_of(name).add_arguments(command)
    return parser


def _sentence(summary: str) -> str:
    said = translate(summary)
    return f"{summary[0].upper()}{summary[1:]}." if said == summary else f"{said}\u3002"


def _module_of(command: str) -> Any:
    name = "act_as" if command == "as" else command.replace("-", "_")  # `as` is a word of the language
    return import_module(f"{__name__}.{name}")


def main_clip_benchmark() -> int:
    """Entry point of the ``clip_benchmark`` alias."""
    return main(program="clip_benchmark")


def main_export_wds() -> int:
    """Entry point of the ``clip_benchmark_export_wds`` alias: its flags are those of ``export``."""
    return main(["export", *sys.argv[1:]], program="clip_benchmark_export_wds")
