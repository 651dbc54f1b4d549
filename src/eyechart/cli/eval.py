"""``eyechart eval``: plan and run jobs, and print a table. Accepts the flags of ``clip_benchmark eval``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eyechart.config import Config
    from eyechart.run import JobReport
    from eyechart.session import Session
    from eyechart.types import Job

from eyechart.cli.flags.eval_flags import CLIP_BENCHMARK, add_arguments, settings_of
from eyechart.errors import UsageError
from eyechart.io.terminal import write_message
from eyechart.messages import UserMessage
from eyechart.settings.evaluation import CommandSettings

__all__ = ["add_arguments", "run", "settings_of"]

CHECKING = UserMessage("importing libraries, checking models and datasets")


def _start(args: CommandSettings, jobs: list[Job], session: Session, *, skip: bool) -> Iterator[JobReport]:
    if args.engine == "ray":
        from eyechart.engine.ray import run_on_ray

        return run_on_ray(jobs, session, skip_existing=skip, address=args.ray_address, workers=args.ray_workers)
    if args.distributed and not args.processes:  # a launcher has started one process per GPU
        from eyechart.run import run_jobs

        return run_jobs(jobs, session, skip_existing=skip)
    from eyechart.engine.workers import run_on_this_machine

    return run_on_this_machine(jobs, session, skip_existing=skip, processes=args.processes)


def run(args: argparse.Namespace, *, advise: bool = True) -> int:
    """Plan and run jobs, and print a table; advise to make a report unless the caller makes one."""
    from eyechart.config import make_config
    from eyechart.io.files import offline_hub, without_cache_writes

    command = CommandSettings(**{key: value for key, value in vars(args).items() if key in CommandSettings.fields()})
    command.check_positive("processes", "ray_workers")
    if command.engine == "ray" and command.processes:
        raise UsageError(
            "{--processes} cannot be combined with {--engine=ray}.", advice="Use {--ray_workers} on a cluster."
        )
    if command.engine != "ray" and (command.ray_address or command.ray_workers):
        raise UsageError("{--ray_address} and {--ray_workers} need {--engine=ray}.")
    config = make_config(settings_of(args))
    if command.engine == "ray":
        from eyechart.engine.ray import check_device

        check_device(config.device)
    with offline_hub(wanted=config.offline or command.dry_run):
        if not command.dry_run:
            return _run(config, command, args.program, advise=advise)
        from eyechart.estimate import estimate

        with without_cache_writes():
            lines = estimate(config, lambda line: write_message("{line}\n", sys.stderr, line=line))
    for line in lines:
        write_message("{line}\n", sys.stdout, line=line)
    return 0


def _run(config: Config, args: CommandSettings, program: str, *, advise: bool) -> int:
    from eyechart.cli.run_output import MOST, job_line, show_profiles, show_reports
    from eyechart.datasets.registry import OpenDatasets
    from eyechart.engine.workers import embed_together, on_own_device, rank_and_size, share_of
    from eyechart.io.digests import forget_digests
    from eyechart.io.progress import ProgressFile, announced, choose_progress
    from eyechart.io.stopwatch import JobClock
    from eyechart.models.towers.torch_tools import local_rank
    from eyechart.plan import plan_jobs
    from eyechart.session import Session

    if config.rehash:
        forget_digests()
    datasets = OpenDatasets()
    with announced(choose_progress(quiet=args.quiet), CHECKING):
        jobs = plan_jobs(config, lambda line: write_message("{line}\n", sys.stderr, line=line), datasets)
    rank, size = rank_and_size() if args.distributed else (0, 1)
    together = size > 1 and args.engine == "local" and not args.processes
    everything = on_own_device(jobs, local_rank() or 0) if together else jobs
    jobs = share_of(everything, rank, size)
    if args.engine == "ray" and len({job.output for job in jobs}) < len(jobs):
        raise UsageError(
            "{--engine=ray} cannot append to one file from several machines.",
            advice="Use {dataset}, {model}, {pretrained}, {language} or {task} in {--output}.",
        )
    reports: list[JobReport] = []
    clock = JobClock(len(jobs))
    folder = jobs[0].output.parent if jobs else Path()
    with ProgressFile(choose_progress(quiet=args.quiet, jobs=clock), folder, clock) as progress:
        session = Session(progress, datasets=datasets)
        if together:
            embed_together(everything, session, rank, size, skip_existing=config.skip_existing)
        for report in _start(args, jobs, session, skip=config.skip_existing):
            # Of thousands of skipped results, keep only as many in memory as the table shows.
            reports.append(replace(report, result=None) if report.skipped and len(reports) >= MOST else report)
            progress.job_done(skipped=report.skipped)
            progress.say(job_line(report, clock))
            if report.error:
                write_message("{error}\n", sys.stderr, error=report.error)
    if not args.quiet or program != CLIP_BENCHMARK:  # which prints nothing if it is quiet
        show_reports(reports, quiet=args.quiet, advise=advise)
        if args.profile:
            show_profiles([report.result for report in reports if report.result and not report.skipped])
    return int(any(report.error for report in reports))
