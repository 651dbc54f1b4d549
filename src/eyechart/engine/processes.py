"""Several processes on this machine, one per device: they embed, this process scores.

Each process gets its share before it starts, so nothing is locked and nothing waits for a process but its end. As on
a cluster, durability is the store's: what a process that died had not stored, this one computes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from multiprocessing import get_context

from eyechart.engine.worker import Worker, chunks_of, missing_images, one_of_each
from eyechart.errors import EyechartError
from eyechart.inference.as_read import Listed
from eyechart.io.progress import Progress
from eyechart.run import JobReport, run_or_skip, skipped
from eyechart.session import Session
from eyechart.types import Job

Share = list[tuple[Job, list[Listed]]]
"""Jobs, and the images of each that a process embeds."""


def run_in_processes(
    jobs: Sequence[Job], session: Session, *, count: int, skip_existing: bool = False
) -> Iterator[JobReport]:
    """Embed the images of all jobs in ``count`` processes, then do the jobs here, one after the other.

    With ``--device auto`` the n-th process takes the n-th GPU; a list of devices is dealt out in its order.
    """
    todo = []
    for job in jobs:
        done = skipped(job, session) if skip_existing else None
        if done is not None:
            yield done
        else:
            todo.append(job)
    work = list(_chunks(one_of_each(todo), session, count))
    shares = [share for share in (work[i::count] for i in range(count)) if share]
    if len(shares) > 1:
        _embed_all(shares, session.progress)
        session.store.refresh()
    yield from (run_or_skip(job, session) for job in todo)


def device_of(device: str, number: int) -> str:
    """Return the device of the n-th process."""
    names = device.split(",")
    return names[number % len(names)].strip()


def _chunks(jobs: Sequence[Job], session: Session, count: int) -> Iterator[tuple[Job, list[Listed]]]:
    """Cut what is missing from the store into tasks; a dataset that cannot be read is left to its job to report."""
    for job in jobs:
        with suppress(EyechartError):
            yield from ((job, chunk) for chunk in chunks_of(job, missing_images(job, session), count))


def _embed_all(shares: Sequence[Share], progress: Progress) -> None:
    context = get_context("spawn")  # a fork would share what CUDA and threads have set up
    started = [context.Process(target=_embed, args=(number, len(shares), share)) for number, share in enumerate(shares)]
    with progress.step(f"images in {len(shares)} processes", len(shares)) as bar:
        for process in started:
            process.start()
        for process in started:
            process.join()
            bar.advance()
    died = sum(process.exitcode != 0 for process in started)
    if died:
        progress.say(f"{died} of {len(started)} processes died. What they had not stored is computed by this one.")


def _embed(number: int, count: int, share: Share) -> None:
    """Embed a share, in a process of its own."""
    os.environ["LOCAL_RANK"] = str(number)  # by this, ``auto`` is one GPU of several
    os.environ["LOCAL_WORLD_SIZE"] = str(count)  # and the cores are shared
    worker = Worker(os.getcwd(), {})  # noqa: PTH109 - where this process stands
    for job, images in share:
        placed = replace(job, model=replace(job.model, device=device_of(job.model.device, number)))
        with suppress(EyechartError):  # the job will meet it again, and report it
            worker.embed(placed, images)
