"""``eyechart run``: task configs in YAML or JSON, as `eyechart.run_task` takes them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from eyechart.io.terminal import write_message

if TYPE_CHECKING:
    from eyechart.run import JobReport


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    add = parser.add_argument
    add("config", nargs="+", metavar="CONFIG", help="YAML or JSON files: whole configs, or their eval_config only")
    add("--work-dir", help="folder for the results, instead of the config's")
    add("--limit", type=int, help="use only the first N samples (queries, for text retrieval)")
    add("--skip-existing", action="store_true", help="do not repeat jobs whose result is there")
    add("--dry-run", action="store_true", help="count what would be asked of APIs and estimate the tokens; ask nothing")
    add("--quiet", action="store_true", help="print the table and errors only: no progress, no notes")


def run(args: argparse.Namespace) -> int:
    """Read the configs, run them, and show a table."""
    from eyechart.cli.parts.show import show_reports
    from eyechart.compat.evalscope import read_configs
    from eyechart.compat.evalscope.main import run_configs
    from eyechart.io.progress import choose_progress

    configs = [with_flags(config, args) for config in read_configs(args.config)]
    reports = list(run_configs(configs, choose_progress(quiet=args.quiet)))
    for line in dry_lines(reports):
        write_message(f"{line}\n", sys.stdout)
    show_reports([report for report in reports if not is_dry(report)], quiet=args.quiet)
    if args.quiet:
        for report in reports:
            if report.error:
                write_message(f"{report.error}\n", sys.stderr)
    return 1 if any(report.error for report in reports) else 0


def is_dry(report: JobReport) -> bool:
    """Tell whether a report is an estimate."""
    return report.result is not None and report.result.facts.get("dry_run") is True


def dry_lines(reports: Sequence[JobReport]) -> Iterator[str]:
    """Say what a run would ask for."""
    for report in reports:
        if report.result is not None and is_dry(report):
            numbers = report.result.metrics
            count = {key: f"{int(value):,}" for key, value in numbers.items()}
            cost = numbers.get("estimated_cost")
            price = "" if cost is None else f", {cost:,.4f} {report.result.facts['currency']}"
            yield (
                f"{report.result.model} on {report.result.dataset}: {count['images']} images, {count['requests']} "
                f"requests, about {count['estimated_prompt_tokens']} prompt tokens and "
                f"{count['estimated_completion_tokens']} completion tokens{price}, {count['estimated_seconds']} s. "
                "Nothing was asked."
            )


def with_flags(config: Any, args: argparse.Namespace) -> Any:
    """Put the command line's settings in place of the config's."""
    flags = {"limit": args.limit, "skip_existing": args.skip_existing or None, "dry_run": args.dry_run or None}
    inner = config.eval_config
    inner = inner.model_copy(
        update={"eval": inner.eval.model_copy(update={key: value for key, value in flags.items() if value is not None})}
    )
    update = {"eval_config": inner} | ({"work_dir": args.work_dir} if args.work_dir else {})
    return config.model_copy(update=update)
