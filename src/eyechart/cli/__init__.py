"""The command line: converts arguments to settings. Help imports nothing heavy."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from eyechart.cli.flags.parser import CommandParser, HelpFormatter
from eyechart.errors import EyechartError, check_platform
from eyechart.io.signals import TERMINATED, Termination, terminable
from eyechart.io.terminal import translate, write_message
from eyechart.plugins import disable_usage_reporting

COMMANDS = {
    "eval": "evaluate models on benchmarks",
    "demo": "evaluate the embedded model on the embedded data",
    "run": "run a task config like EvalScope's run_task: captions, image-text and text retrieval",
    "as": "run a script written for CLIP_benchmark, EvalScope or VLMEvalKit with its imports served by Eyechart",
    "compare": "compare models on the same samples",
    "report": "write results as one HTML page",
    "serve": "serve the report on loopback, updated during a run",
    "build": "combine results into one table: CSV, Parquet, Markdown, LaTeX",
    "list": "list datasets, models, tasks, collections and languages",
    "info": "describe a dataset, a model or another name",
    "export": "write a dataset as a webdataset folder",
    "vlm": "tools for question tables: conversion and circular sets",
    "doctor": "check the installation and give advice",
    "selftest": "repeat published numbers on this machine, and measure a device against the CPU",
    "bench": "measure throughput and latency of an encoder or a server",
    "cache": "list, verify, compact or clear the cache: vectors, answers, downloads",
    "completion": "print a completion script for bash, zsh or fish",
}
"""Subcommands: each is a module of this package with ``add_arguments(parser)`` and ``run(args)``."""
GROUPS = {
    "evaluate": ("eval", "demo", "run", "as"),
    "look at results": ("compare", "report", "serve", "build"),
    "look up": ("list", "info"),
    "prepare data": ("export", "vlm"),
    "this machine": ("doctor", "selftest", "bench", "cache", "completion"),
}
FORMER_NAMES = {"bench-api": "bench"}
EXAMPLES = (
    "eval photos/ ViT-B-32:openai",
    "info photos/",
    "list datasets --search flowers",
    "compare results/",
    "serve",
)

CLIP_BENCHMARK, EXPORT_WDS = "clip_benchmark", "clip_benchmark_export_wds"
"""Commands of CLIP_benchmark that are installed under their own names."""
INTERRUPTED = 130
BROKEN_PIPE = 141


def main(arguments: Sequence[str] | None = None, *, program: str = "eyechart") -> int:
    """Run a command and return its exit code: 0 success, 1 a job failed, 2 wrong usage."""
    # Not list(...): the module of the command `list` shadows the builtin once it is imported.
    words = [*(sys.argv[1:] if arguments is None else arguments)]
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller, as with `>&-`
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115
    disable_usage_reporting()
    os.environ.setdefault("HF_HUB_VERBOSITY", "error")  # one error instead of a warning per attempt
    try:
        check_platform()
        with terminable():
            at = next((i for i, word in enumerate(words) if not word.startswith("-")), None)
            if at is not None:
                words[at] = FORMER_NAMES.get(words[at], words[at])
            parser = make_parser(program, None if at is None else words[at])
            code = _run(parser, words)
            sys.stdout.flush()
    except EyechartError as error:
        write_message("{program}: {reason}\n", sys.stderr, program=program, reason=error)
        return error.exit_code
    except KeyboardInterrupt:
        write_message("{program}: interrupted; run the same command to resume.\n", sys.stderr, program=program)
        return INTERRUPTED
    except Termination:
        write_message("{program}: terminated; run the same command to resume.\n", sys.stderr, program=program)
        return TERMINATED
    except BrokenPipeError:  # as with `| head`
        _discard_output()
        return BROKEN_PIPE
    except OSError:
        reason = _output_failure()
        if reason is None:
            raise
        _discard_output()
        write_message("{program}: cannot write the output ({reason}).\n", sys.stderr, program=program, reason=reason)
        return 1
    return code


def _run(parser: CommandParser, words: Sequence[str]) -> int:
    if not words:
        write_message(parser.format_help(), sys.stdout)
        return 0
    args = parser.parse_args(words)
    code: int = _module_of(args.command).run(args)
    return code


def _output_failure() -> str | None:
    """Return why standard output cannot be written, as on a full disk; None if a line break can be."""
    try:
        write_message("\n", sys.stdout)
        sys.stdout.flush()
    except OSError as error:
        return error.strerror
    return None


def _discard_output() -> None:
    """Redirect standard output, so that flushing it at exit does not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def make_parser(program: str, wanted: str | None = None) -> CommandParser:
    """Build the parser; only the wanted command adds its flags, to keep start-up fast."""
    from eyechart import __version__

    parser = CommandParser(
        prog=program, description="The vision test for vision-language models.", formatter_class=HelpFormatter
    )
    parser.set_defaults(program=program)
    parser.sections, parser.examples = GROUPS, EXAMPLES if program != EXPORT_WDS else ()
    parser.add_argument("--version", action="version", version=f"eyechart {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, summary in COMMANDS.items():
        said = translate(summary)
        sentence = f"{summary[0].upper()}{summary[1:]}." if said == summary else f"{said}\u3002"
        shown = program if program == EXPORT_WDS else f"{program} {name}"
        command = commands.add_parser(
            name, prog=shown, help=summary, description=sentence, formatter_class=HelpFormatter
        )
        if name == wanted:
            _module_of(name).add_arguments(command)
    return parser


def _module_of(command: str) -> Any:
    name = "act_as" if command == "as" else command.replace("-", "_")  # `as` is a keyword
    return import_module(f"{__name__}.{name}")


def main_clip_benchmark() -> int:
    """Entry point of the ``clip_benchmark`` alias."""
    return main(program=CLIP_BENCHMARK)


def main_export_wds() -> int:
    """Entry point of the ``clip_benchmark_export_wds`` alias of ``export``."""
    return main(["export", *sys.argv[1:]], program=EXPORT_WDS)
