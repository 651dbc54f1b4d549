"""``eyechart run``: run task configs in YAML or JSON, as `eyechart.run_task` does."""

import argparse
import sys
from typing import Any

from eyechart.io.terminal import write_message

ESTIMATE = (
    "{model} on {dataset}: {images} images, {requests} requests, about {estimated_prompt_tokens} prompt tokens and "
    "{estimated_completion_tokens} completion tokens{price}, {estimated_seconds} s. No request was sent.\n"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add = parser.add_argument
    add("config", nargs="+", metavar="CONFIG", help="YAML or JSON files: whole configs, or their eval_config only")
    add("--work-dir", help="results folder, overriding the config")
    add("--limit", type=int, help="use only the first N samples (queries, for text retrieval)")
    add("--skip-existing", action="store_true", help="skip jobs that already have a result")
    add("--dry-run", action="store_true", help="estimate requests and tokens without sending anything")
    add("--quiet", action="store_true", help="print only the table and errors: no progress, no notes")


def run(args: argparse.Namespace) -> int:
    """Run the configs and print a table."""
    from eyechart.cli.run_output import show_reports
    from eyechart.compat.evalscope.main import read_configs, run_configs
    from eyechart.io.progress import choose_progress

    configs = [_with_flags(config, args) for config in read_configs(args.config)]
    reports = list(run_configs(configs, choose_progress(quiet=args.quiet)))
    shown = []
    for report in reports:
        result = report.result
        if result is None or result.facts.get("dry_run") is not True:
            shown.append(report)
            continue
        numbers = {key: f"{int(value):,}" for key, value in result.metrics.items()}
        cost = result.metrics.get("estimated_cost")
        price = "" if cost is None else f", {cost:,.4f} {result.facts['currency']}"
        write_message(ESTIMATE, sys.stdout, model=result.model, dataset=result.dataset, price=price, **numbers)
    show_reports(shown, quiet=args.quiet)
    errors = [report.error for report in reports if report.error]
    for error in errors if args.quiet else ():
        write_message("{error}\n", sys.stderr, error=error)
    return int(bool(errors))


def _with_flags(config: Any, args: argparse.Namespace) -> Any:
    """Override the config's settings with the command line's."""
    flags = {"limit": args.limit, "skip_existing": args.skip_existing or None, "dry_run": args.dry_run or None}
    given = {key: value for key, value in flags.items() if value is not None}
    inner = config.eval_config
    inner = inner.model_copy(update={"eval": inner.eval.model_copy(update=given)})
    return config.model_copy(update={"eval_config": inner} | ({"work_dir": args.work_dir} if args.work_dir else {}))
