"""Sharing a run between processes that somebody else started: torchrun, Slurm, MPI (``--distributed``).

Each process does every n-th job. Where there are fewer jobs than processes, all of them embed first, each its part of
every dataset; who scores a dataset waits for the others' vectors as long as the store grows. Nobody sends anything to
anybody: what a process that died had not stored, the one that scores computes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from eyechart.engine.processes import device_of
from eyechart.engine.worker import embeddings, has_images, missing_images, one_of_each
from eyechart.errors import EyechartError, UsageError
from eyechart.inference.as_read import Listed
from eyechart.run import skipped
from eyechart.session import Session
from eyechart.types import Job

VARIABLES = (
    ("RANK", "WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)
"""Who am I, of how many: torchrun's names first, since it may run inside the others."""
POLL_SECONDS = 2.0
PATIENCE = 45
"""How often the store is looked at without anything new in it; a process stores what it has every 20 seconds."""


def rank_and_size(environment: Mapping[str, str] = os.environ) -> tuple[int, int]:
    """Read this process's number and the number of processes; without a launcher it is the only one.

    Raises:
        UsageError: If what a launcher set makes no sense.
    """
    for mine, all_ in VARIABLES:
        if mine in environment and all_ in environment:
            try:
                rank, size = int(environment[mine]), int(environment[all_])
            except ValueError:
                rank, size = -1, 0
            if not 0 <= rank < size:
                raise UsageError(f"{mine}={environment[mine]} and {all_}={environment[all_]} make no sense.")
            return rank, size
    return 0, 1


def share_of(jobs: Sequence[Job], rank: int, size: int) -> list[Job]:
    """Return every ``size``-th job, starting with this rank's: each job belongs to exactly one process."""
    return list(jobs[rank::size])


def on_own_device(jobs: Sequence[Job], local: int) -> list[Job]:
    """Give the n-th process of a machine the n-th of the devices that were listed; ``auto`` is one GPU by itself."""
    return [replace(job, model=replace(job.model, device=device_of(job.model.device, local))) for job in jobs]


def embed_together(
    jobs: Sequence[Job],
    session: Session,
    rank: int,
    size: int,
    *,
    skip_existing: bool = False,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Embed this process's part of the images of all jobs, if they are fewer than the processes, and await the others.

    Args:
        jobs: All jobs, in the same order in every process.
        session: With a store that all processes see.
        rank: This process's number.
        size: The number of processes.
        skip_existing: Whether jobs whose result is there are left out.
        pause: Waits for so many seconds.
    """
    if len(jobs) >= size:
        return
    todo = [job for job in jobs if not (skip_existing and skipped(job, session))]
    embedded = [job for job in one_of_each(todo) if _embed_part(job, session, rank, size)]
    mine = [(job.model, job.dataset) for job in share_of(jobs, rank, size)]
    for job in embedded:
        if (job.model, job.dataset) in mine:
            _await(job, session, pause)


def _embed_part(job: Job, session: Session, rank: int, size: int) -> bool:
    """Embed this process's part of a dataset; tell whether that went well."""
    try:
        part, read = part_of(job, session, rank, size), partial(session.manifest, job)
        embeddings(job, session).embed_samples(part, read)
    except EyechartError:
        return False  # the job will meet it again, and report it
    return True


def part_of(job: Job, session: Session, rank: int, size: int) -> list[Listed]:
    """List what is missing of this process's part of a dataset: neighbours, which are in the same files.

    Where it begins and ends depends on the dataset alone, not on what the others have stored in the meantime. Parts are
    whole batches: a batch holds the same images as it would in one process.
    """
    missing = missing_images(job, session)
    if not missing:
        return []
    distinct = dict.fromkeys(digest.tobytes() for digest in session.manifest(job).digests)
    batch_of = {key: i // job.batch_size for i, key in enumerate(distinct)}
    batches = -(-len(distinct) // job.batch_size)
    return [(key, sample) for key, sample in missing if batch_of[key] * size // batches == rank]


def _await(job: Job, session: Session, pause: Callable[[float], None]) -> None:
    """Wait until a dataset is embedded, or nothing new comes: broken images never do, nor do those of the dead."""
    left, still = _count(job, session), 0
    while left and still < PATIENCE:
        pause(POLL_SECONDS)
        before, left = left, _count(job, session)
        still = still + 1 if left == before else 0


def _count(job: Job, session: Session) -> int:
    return embeddings(job, session).count_missing(session.manifest(job)) if has_images(job, session) else 0
