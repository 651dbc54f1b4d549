"""Sharing a run between processes that somebody else started: torchrun, Slurm, MPI (``--distributed``)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from eyechart.errors import UsageError
from eyechart.types import Job

VARIABLES = (
    ("RANK", "WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)
"""Who am I, of how many: torchrun's names first, since it may run inside the others."""


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
