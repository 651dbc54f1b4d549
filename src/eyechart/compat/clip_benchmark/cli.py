"""``clip_benchmark.cli``: the same command line, and runs described by an object with its flags as attributes."""

from __future__ import annotations

import argparse
import sys
import warnings
from typing import Any

from eyechart.cli import build, main_clip_benchmark, make_parser
from eyechart.cli.flags.settings import settings_of
from eyechart.compat.clip_benchmark.models import TYPE2FUNC
from eyechart.config import Config, make_config
from eyechart.engine.ranks import rank_and_size
from eyechart.io.progress import choose_progress
from eyechart.models.towers.torch_tools import local_rank
from eyechart.plan import TASK_FLAGS, plan_jobs
from eyechart.run import run_jobs
from eyechart.session import Session

__all__ = ["get_parser_args", "main", "main_build", "main_eval", "run", "world_info_from_env"]

PROGRAM = "clip_benchmark"
OWN_TYPES = frozenset(TYPE2FUNC)


def main() -> None:
    """Run the command of this process' arguments; where it fails, the script ends with its exit code."""
    code = main_clip_benchmark()
    if code:
        sys.exit(code)


def get_parser_args() -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    """Parse this process' arguments: ``which`` is the command, ``verbose`` the opposite of ``--quiet``."""
    words = sys.argv[1:]
    parser = make_parser(PROGRAM, next((word for word in words if not word.startswith("-")), None))
    args = parser.parse_args(words)
    args.which = args.command
    args.verbose = not getattr(args, "quiet", False)
    if args.which == "eval":
        args.amp = not args.no_amp
    return parser, args


def main_eval(base: Any) -> None:
    """Run all that an object names: models, datasets and languages."""
    run(base)


def main_build(base: Any) -> None:
    """Make one table of result files."""
    args = make_parser(PROGRAM, "build").parse_args(["build", *base.files, "--output", base.output])
    build.run(args)


def run(args: Any) -> int:
    """Run what an object describes by attributes that are called like the flags; the others have their defaults.

    The first job that fails is raised as an error. Results are those of the command, in the same files.
    """
    flags = make_parser(PROGRAM, "eval").parse_args(["eval"])
    for name in {**vars(flags), **dict.fromkeys((*Config.model_fields, *TASK_FLAGS))}:  # some are left open: --output
        given = getattr(args, name, None)
        several = isinstance(getattr(flags, name, None), list) or name in LISTS
        if given is not None and name not in ("amp", "verbose"):
            setattr(flags, name, _listed(given) if several else given)
    quiet = not getattr(args, "verbose", True)
    flags.no_amp = getattr(args, "amp", True) is False
    if flags.model_type in TYPE2FUNC and flags.model_type not in OWN_TYPES:
        load = TYPE2FUNC[flags.model_type]
        flags.model_type = f"python:{load.__module__}:{load.__qualname__}"
    config = make_config(settings_of(flags))
    session = Session(choose_progress(quiet=quiet))
    jobs = plan_jobs(config, lambda line: warnings.warn(line, stacklevel=2), session.datasets)
    for report in run_jobs(jobs, session, skip_existing=config.skip_existing):
        if report.error:
            raise report.error
    return 0


LISTS = ("val_split", "val_proportion")
"""Flags with several values and no default."""


def world_info_from_env() -> tuple[int, int, int]:
    """Return this process' number on its machine, its number among all, and how many there are."""
    return local_rank() or 0, *rank_and_size()


def _listed(value: Any) -> Any:
    """Take a single value for a list of one, and an empty text for none."""
    if value == "":
        return []
    return list(value) if isinstance(value, list | tuple) else [value]
