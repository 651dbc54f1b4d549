"""``clip_benchmark.cli`` for scripts: the command line, and runs given as an object with flags as attributes."""

import argparse
import sys
import warnings
from typing import Any, get_origin

from eyechart.cli import build, main_clip_benchmark, make_parser
from eyechart.cli.flags.eval_flags import eval_settings, settings_of
from eyechart.compat.clip_benchmark.models import TYPE2FUNC
from eyechart.config import make_config
from eyechart.engine.workers import rank_and_size
from eyechart.io.progress import choose_progress
from eyechart.models.towers.torch_tools import local_rank
from eyechart.plan import plan_jobs
from eyechart.run import run_jobs
from eyechart.session import Session
from eyechart.settings.presets import PRESETS

__all__ = ["get_parser_args", "main", "main_build", "main_eval", "run", "world_info_from_env"]

PROGRAM = "clip_benchmark"
OWN_TYPES = frozenset(TYPE2FUNC)


def main() -> None:
    """Run the command in sys.argv; exit with its code if it fails."""
    code = main_clip_benchmark()
    if code:
        sys.exit(code)


def get_parser_args() -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    """Parse sys.argv: ``which`` is the command, ``verbose`` the opposite of ``--quiet``."""
    words = sys.argv[1:]
    parser = make_parser(PROGRAM, next((word for word in words if not word.startswith("-")), None))
    args = parser.parse_args(words)
    args.which = args.command
    args.verbose = not getattr(args, "quiet", False)
    if args.which == "eval":
        args.amp = getattr(args, "precision", "") != "fp32"
        by_preset = {name for preset in PRESETS.values() for name in (*preset, *preset.get("task_options", {}))}
        for name, one, _ in eval_settings():
            if name not in by_preset:
                vars(args).setdefault(name, one.default)
    return parser, args


def main_eval(base: Any) -> None:
    """Run all models, datasets and languages that an object names."""
    run(base)


def main_build(base: Any) -> None:
    """Combine result files into one table."""
    args = make_parser(PROGRAM, "build").parse_args(["build", *base.files, "--output", base.output])
    build.run(args)


def run(args: Any) -> int:
    """Run an evaluation given as an object with flags as attributes; missing attributes take their defaults.

    The first failing job raises its error. Results are written to the same files as by the command.
    """
    flags = argparse.Namespace(program=PROGRAM)
    for name, one, kind in eval_settings():
        given = getattr(args, name, None)
        several = get_origin(kind) is list or one.per_dataset
        if given is not None and not (several and given == ""):
            setattr(flags, name, list(given) if isinstance(given, tuple) else given)
    quiet = not getattr(args, "verbose", True)
    if getattr(args, "amp", True) is False:
        flags.precision = "fp32"
    if getattr(flags, "model_type", None) in TYPE2FUNC and flags.model_type not in OWN_TYPES:
        load = TYPE2FUNC[flags.model_type]
        flags.model_type = f"python:{load.__module__}:{load.__qualname__}"
    config = make_config(settings_of(flags))
    session = Session(choose_progress(quiet=quiet))
    jobs = plan_jobs(config, lambda line: warnings.warn(line, stacklevel=2), session.datasets)
    for report in run_jobs(jobs, session, skip_existing=config.skip_existing):
        if report.error:
            raise report.error
    return 0


def world_info_from_env() -> tuple[int, int, int]:
    """Return local rank, global rank and world size."""
    return local_rank() or 0, *rank_and_size()
