"""``eyechart eval``: plan, run, show a table. Its flags are those of ``clip_benchmark eval``, and our own."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eyechart.run import JobReport
    from eyechart.session import Session
    from eyechart.types import Job

from eyechart.cli.flags.eval_flags import add_arguments
from eyechart.cli.flags.settings import CLIP_BENCHMARK, settings_of
from eyechart.errors import UsageError
from eyechart.io.terminal import write_message
from eyechart.io.wording import as_flags

__all__ = ["add_arguments", "run", "settings_of"]


def _check_engine(args: argparse.Namespace) -> None:
    """Refuse numbers of workers that are none, and flags of an engine that was not asked for."""
    for flag in ("processes", "ray_workers"):
        count = getattr(args, flag)
        if count is not None and count < 1:
            raise UsageError(f"--{flag.replace('_', '-')} must be 1 or more, not {count}.")
    if args.engine == "ray" and args.processes:
        raise UsageError("--processes is for one machine, --engine ray for a cluster.", advice="Leave one of them out.")
    if args.engine != "ray" and (args.ray_address or args.ray_workers):
        raise UsageError("--ray-address and --ray-workers need --engine ray.")


def _start(args: argparse.Namespace, jobs: list[Job], session: Session) -> Iterator[JobReport]:
    """Hand the jobs to the engine that was asked for."""
    skip = args.skip_existing
    if args.engine == "ray":
        from eyechart.engine.ray import run_on_ray

        return run_on_ray(jobs, session, skip_existing=skip, address=args.ray_address, workers=args.ray_workers)
    if args.processes:
        from eyechart.engine.processes import run_in_processes

        return run_in_processes(jobs, session, skip_existing=skip, count=args.processes)
    from eyechart.run import run_jobs

    return run_jobs(jobs, session, skip_existing=skip)


def _rank(args: argparse.Namespace) -> tuple[int, int]:
    """Return this process's number and how many share the jobs: one, unless a launcher started several."""
    from eyechart.engine.ranks import rank_and_size

    return rank_and_size() if args.distributed else (0, 1)


def run(args: argparse.Namespace) -> int:
    """Plan, run, and show a table."""
    from eyechart.io.hub_cache import asking_nothing

    _check_engine(args)
    with asking_nothing(wanted=args.offline or args.dry_run):
        return _dry_run(args) if args.dry_run else _run(args)


def _dry_run(args: argparse.Namespace) -> int:
    """Show what would be done, and do nothing."""
    from eyechart.config import make_config
    from eyechart.estimate import estimate, estimate_lines
    from eyechart.io.files import keeping_nothing

    with keeping_nothing():
        found = estimate(make_config(settings_of(args)), lambda line: write_message(f"{as_flags(line)}\n", sys.stderr))
    for line in estimate_lines(found, skip_existing=args.skip_existing):
        write_message(f"{line}\n", sys.stdout)
    return 0


def _run(args: argparse.Namespace) -> int:
    from eyechart.cli.parts.show import MOST, job_line, show_profiles, show_reports
    from eyechart.config import make_config
    from eyechart.datasets.registry import OpenDatasets
    from eyechart.engine.ranks import embed_together, on_own_device, share_of
    from eyechart.io.progress import choose_progress
    from eyechart.io.progress.file import ProgressFile
    from eyechart.io.stopwatch import JobClock
    from eyechart.models.towers.torch_tools import local_rank
    from eyechart.plan import plan_jobs
    from eyechart.session import Session

    config = make_config(settings_of(args))
    datasets = OpenDatasets()
    jobs = plan_jobs(config, lambda line: write_message(f"{as_flags(line)}\n", sys.stderr), datasets)
    rank, size = _rank(args)
    together = size > 1 and args.engine == "local" and not args.processes
    everything = on_own_device(jobs, local_rank() or 0) if together else jobs
    jobs = share_of(everything, rank, size)
    if args.engine == "ray" and len({job.output for job in jobs}) < len(jobs):
        raise UsageError(
            "--engine ray: several machines cannot safely add lines to one file.",
            advice="Put {dataset}, {model}, {pretrained}, {language} or {task} into --output.",
        )
    reports: list[JobReport] = []
    clock = JobClock(len(jobs))
    folder = jobs[0].output.parent if jobs else Path()
    with ProgressFile(choose_progress(quiet=args.quiet, jobs=clock), folder, clock) as progress:
        session = Session(progress, datasets=datasets)
        if together:
            embed_together(everything, session, rank, size, skip_existing=args.skip_existing)
        for report in _start(args, jobs, session):
            # Of thousands of results that are there already, no more are kept in memory than the table will show.
            reports.append(replace(report, result=None) if report.skipped and len(reports) >= MOST else report)
            progress.job_done(skipped=report.skipped)
            progress.say(job_line(report, clock))
            if report.error:
                write_message(f"{as_flags(report.error)}\n", sys.stderr)
    if args.quiet and args.program == CLIP_BENCHMARK:  # its scripts read nothing there
        return 1 if any(report.error for report in reports) else 0
    show_reports(reports, quiet=args.quiet)
    if args.profile:
        show_profiles([report.result for report in reports if report.result and not report.skipped])
    return 1 if any(report.error for report in reports) else 0
