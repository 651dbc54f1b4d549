"""What a worker does, in whichever process it runs: embed parts of a dataset into the store, or do a whole job."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from eyechart.inference.as_read import Listed
from eyechart.inference.embeddings import StoredEmbeddings
from eyechart.run import JobReport, run_or_skip
from eyechart.session import Session
from eyechart.tasks.registry import load_task
from eyechart.types import Job, digest_json

CHUNK_BATCHES = 8
"""Batches of images per task: large enough to hide a millisecond of dispatch, small enough to share a dataset."""

TEXT_ONLY = ("texts", "external")
"""Kinds of datasets whose samples are no images."""


class Worker:
    """Keeps one model loaded and does what it is told."""

    def __init__(self, folder: str, environment: dict[str, str]) -> None:
        os.environ.update(environment)
        if Path(folder).is_dir():
            os.chdir(folder)
        self.session = Session()

    def missing(self, job: Job) -> list[Listed]:
        """List the images of a job that have no vector yet; what is not embedded has none to list."""
        return missing_images(job, self.session)

    def embed(self, job: Job, images: list[Listed]) -> None:
        """Embed some images of a job; no other one's bytes are read."""
        embeddings(job, self.session).embed_samples(images, lambda: self.session.manifest(job))

    def run(self, job: Job) -> JobReport:
        """Do a whole job; what is in the store is not computed again."""
        self.session.store.refresh()
        return run_or_skip(job, self.session)


def missing_images(job: Job, session: Session) -> list[Listed]:
    """List the images of a job that an encoder has yet to embed."""
    return embeddings(job, session).missing_samples(session.manifest(job)) if has_images(job, session) else []


def has_images(job: Job, session: Session) -> bool:
    """Tell whether an encoder sees the samples of a job."""
    return load_task(job.task).needs == "encoder" and session.manifest(job).info.kind not in TEXT_ONLY


def embeddings(job: Job, session: Session) -> StoredEmbeddings:
    """Return the encoder of a job; the job itself decides later what a broken image means."""
    session.store.refresh()
    model = session.model(job.model, "encoder")
    return StoredEmbeddings(
        model,
        session.store,
        batch_size=job.batch_size,
        grow=job.grow,
        workers=job.workers,
        decode_processes=job.decode_processes,
        on_error="skip",
        half=job.half,
    )


def one_of_each(jobs: Sequence[Job]) -> list[Job]:
    """Return one job for each pair of model and dataset: the others need the same vectors."""
    return list({digest_json([job.model.what, job.dataset]): job for job in jobs}.values())


def chunk_size(job: Job) -> int:
    """Return how many images make a task."""
    return CHUNK_BATCHES * job.batch_size


def chunks_of(job: Job, images: list[Listed], workers: int) -> Iterator[list[Listed]]:
    """Cut images into tasks of whole batches: a batch holds the same images as it would on one machine.

    Images that can only be had by reading the dataset are cut into one task a worker: each task reads it once.
    """
    step = chunk_size(job)
    if any(sample.image is None for _, sample in images):
        step = max(step, -(-len(images) // (workers * job.batch_size)) * job.batch_size)
    yield from (images[i : i + step] for i in range(0, len(images), step))
