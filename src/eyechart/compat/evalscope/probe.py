"""Whether the servers of a run are there, before any of its jobs starts."""

from __future__ import annotations

from collections.abc import Iterator

from eyechart.compat.evalscope.estimate import missing_captions
from eyechart.compat.evalscope.schema import CAPTION
from eyechart.compat.evalscope.translate import Translation
from eyechart.models.family import Remote
from eyechart.models.registry import family_of
from eyechart.run import find_done
from eyechart.session import Session
from eyechart.tasks.captions.image_caption import data_folder
from eyechart.tasks.registry import load_task
from eyechart.types import Job, ModelSpec, digest_json


def probe_servers(plan: Translation, session: Session) -> None:
    """Reach every server that a job will need; one whose answers are all stored is not needed."""
    probed: set[str] = set()
    for job in _to_do(plan, session):
        for family, spec in _remote(job):
            key = digest_json([type(family).__name__, spec.what])
            if key not in probed and not (job.task == CAPTION and not missing_captions(job, session)):
                family.probe(spec)
                probed.add(key)


def _to_do(plan: Translation, session: Session) -> Iterator[Job]:
    """Yield the jobs that will not be skipped."""
    rewritten: set[str] = set()
    for job in () if plan.dry_run else plan.jobs:
        # What a job before will write anew cannot be looked at yet.
        fresh = job.dataset.root in rewritten
        if not fresh and plan.skip_existing and job.output.exists() and find_done(job, session)[0] is not None:
            continue
        if job.task == CAPTION:
            rewritten.add(str(data_folder(job.output)))
        yield job


def _remote(job: Job) -> Iterator[tuple[Remote, ModelSpec]]:
    """Yield the models of a job that run elsewhere."""
    task = load_task(job.task)
    roles = [(job.model, task.needs), *((spec, task.roles[part]) for part, spec in job.others.items())]
    for spec, role in roles:
        family = family_of(spec, role)
        if isinstance(family, Remote):
            yield family, spec
