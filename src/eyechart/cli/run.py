"""``eyechart run``: task configs in YAML or JSON, as `eyechart.run_task` takes them."""

from __future__ import annotations

import argparse
import sys
from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    add = parser.add_argument
    add("config", nargs="+", metavar="CONFIG", help="YAML or JSON files: whole configs, or their eval_config only")
    add("--work_dir", "--work-dir", help="folder for the results, instead of the config's")
    add("--limit", type=int, help="use only the first N samples (queries, for text retrieval)")
    add("--skip_existing", action="store_true", help="do not repeat jobs whose result is there")
    add("--dry-run", action="store_true", help="count what would be asked of APIs and estimate the tokens; ask nothing")
    add("--quiet", action="store_true", help="show no progress")


def run(args: argparse.Namespace) -> int:
    """Read the configs, run them, and show a table."""
    from eyechart.cli.show import show_reports
    from eyechart.progress import choose_progress
    from eyechart.task_config import read_configs
    from eyechart.workflow.main import run_configs

    configs = [with_flags(config, args) for config in read_configs(args.config)]
    reports = list(run_configs(configs, choose_progress(quiet=args.quiet)))
    show_reports(reports, quiet=args.quiet)
    if args.quiet:
        for report in reports:
            if report.error:
                sys.stderr.write(f"{report.error}\n")
    return 1 if any(report.error for report in reports) else 0


def with_flags(config: Any, args: argparse.Namespace) -> Any:
    """Put the command line's settings in place of the config's."""
    flags = {"limit": args.limit, "skip_existing": args.skip_existing or None, "dry_run": args.dry_run or None}
    inner = config.eval_config
    inner = inner.model_copy(
        update={"eval": inner.eval.model_copy(update={key: value for key, value in flags.items() if value is not None})}
    )
    update = {"eval_config": inner} | ({"work_dir": args.work_dir} if args.work_dir else {})
    return config.model_copy(update=update)
