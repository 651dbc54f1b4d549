"""What a worker does, in whichever process it runs: embed parts of a dataset into the store, or do a whole job."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from eyechart.config import Config
from eyechart.errors import EyechartError
from eyechart.inference.embeddings import LocalEmbeddings
from eyechart.models.family import LazyEncoder
from eyechart.run import JobReport, Session, open_model, run_job
from eyechart.types import Job, digest_json

CHUNK_BATCHES = 8
"""Batches of images per task: large enough to hide a millisecond of dispatch, small enough to share a dataset."""


class Worker:
    """Keeps one model loaded and does what it is told."""

    def __init__(self, config: Config, folder: str, environment: dict[str, str]) -> None:
        os.environ.update(environment)
        if Path(folder).is_dir():
            os.chdir(folder)
        self.config = config
        self.session = Session()
        self.model: LazyEncoder | None = None

    def missing(self, job: Job) -> list[str]:
        """List the images of a job that have no vector yet."""
        manifest = self.session.manifest(job)
        return self._embeddings(job).missing_ids(manifest)

    def embed(self, job: Job, ids: list[str]) -> int:
        """Embed some images of a job."""
        return self._embeddings(job).embed_ids(self.session.manifest(job), set(ids))

    def run(self, job: Job) -> JobReport:
        """Do a whole job; what is in the store is not computed again."""
        self.session.store.refresh()
        try:
            return JobReport(job, result=run_job(job, self._model(job), self.session, self.config))
        except EyechartError as error:
            return JobReport(job, error=error)

    def _embeddings(self, job: Job) -> LocalEmbeddings:
        self.session.store.refresh()
        return LocalEmbeddings(
            self._model(job),
            self.session.store,
            batch_size=job.batch_size,
            workers=job.workers,
            on_error="skip",  # the job itself decides what a broken image means
        )

    def _model(self, job: Job) -> LazyEncoder:
        if self.model is None or self.model.spec != job.model:
            self.model = None  # two models may not fit beside each other
            self.model = open_model(job.model)
        return self.model


def one_of_each(jobs: Sequence[Job]) -> list[Job]:
    """Return one job for each pair of model and dataset: the others need the same vectors."""
    return list({digest_json([job.model, job.dataset]): job for job in jobs}.values())


def chunk_size(job: Job) -> int:
    """Return how many images make a task."""
    return CHUNK_BATCHES * job.batch_size


def chunks_of(job: Job, ids: list[str]) -> Iterator[list[str]]:
    """Cut images into tasks of whole batches: a batch holds the same images as it would on one machine."""
    step = chunk_size(job)
    yield from (ids[i : i + step] for i in range(0, len(ids), step))
