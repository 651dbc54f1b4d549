"""Running planned jobs in a test, as ``eyechart eval`` does."""

from __future__ import annotations

from eyechart.io.progress import NoProgress
from eyechart.run import run_jobs
from eyechart.session import Session


def run_planned(jobs, config, progress=None):
    """Run jobs with a session of their own."""
    return run_jobs(jobs, Session(progress or NoProgress()), skip_existing=config.skip_existing)
