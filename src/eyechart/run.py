"""From jobs to results: read, predict, score, save. One function does a job, whatever its task."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from eyechart.errors import EyechartError
from eyechart.inference.embeddings import StoredEmbeddings
from eyechart.io.stopwatch import Stopwatch
from eyechart.manifest import Manifest
from eyechart.results.build import Done, make_result
from eyechart.results.complete import check_complete
from eyechart.results.done import check_owner, is_done
from eyechart.results.files import write_result
from eyechart.results.result import Result
from eyechart.results.thumbnails import with_thumbnails
from eyechart.session import Session, Stored
from eyechart.tasks.base import Material, Prediction
from eyechart.tasks.groups import check_columns, score_with_groups
from eyechart.tasks.registry import load_task
from eyechart.tasks.rounding import compare_with_full
from eyechart.types import Job


@dataclass(frozen=True)
class JobReport:
    """How one job ended; one that lost too many samples has both a result and an error."""

    job: Job
    result: Result | None = None
    error: EyechartError | None = None
    skipped: bool = False


def results_of(reports: Sequence[JobReport]) -> list[Result]:
    """Return the results of jobs that are all done, or raise the first error."""
    for report in reports:
        if report.error is not None:
            raise report.error
    return [report.result for report in reports if report.result is not None]


def run_jobs(jobs: Sequence[Job], session: Session, *, skip_existing: bool = False) -> Iterator[JobReport]:
    """Run jobs one after the other; jobs of one model share it, and a failing job does not stop the others."""
    return (run_or_skip(job, session, skip_existing=skip_existing) for job in jobs)


def run_or_skip(job: Job, session: Session, *, skip_existing: bool = False) -> JobReport:
    """Do a job, unless it may be skipped and its result is there."""
    try:
        if skip_existing:
            done = skipped(job, session)
            if done is not None:
                return done
        result = run_job(job, session)
        return JobReport(job, result=result, error=check_complete(result, job.min_success))
    except EyechartError as error:
        return JobReport(job, error=error)


def skipped(job: Job, session: Session) -> JobReport | None:
    """Return the report of a job that needs not be done again."""
    if not job.output.exists():
        return None
    done, _ = find_done(job, session)
    if done is None:
        return None
    return JobReport(job, result=done, error=check_complete(done, job.min_success), skipped=True)


def find_done(job: Job, session: Session) -> tuple[Result | None, str]:
    """Return the job's result if it is there, whole, and would come out the same today; if not, why not."""
    task = load_task(job.task)
    done, why = is_done(job, session.identity(job, task))
    if done is not None and not task.is_whole(done.facts, done.details):
        return None, f"{job.output} lacks something, or files that belong to it were changed"
    return done, why


def run_job(job: Job, session: Session) -> Result:
    """Read the dataset, predict, score and save one result."""
    start, watch = time.perf_counter(), Stopwatch()
    task = load_task(job.task)
    check_owner(job)
    if job.output.exists():
        done, why = find_done(job, session)
        if done is not None or why:
            session.progress.say(f"{why or f'{job.output} holds the same result'}; it is written over")
    with watch.phase("read"):
        reading = session.reading(job)
        if task.needs != "encoder" or task.splits(job.settings):  # images are compared before any is embedded
            _ = reading.manifest
    check_columns(reading.outline, job.settings)
    model = session.behind_store(job, task, watch)
    loaded_before = model.model.loaded
    material = Material(
        listed=reading,
        model=model,
        open_split=partial(session.manifest, job),
        output=job.place,
        open_other=partial(session.behind_store, job, task, watch),
        others=tuple(job.others),
        device=job.model.device.partition(",")[0],
        on_error=job.on_error,
        progress=session.progress,
    )
    prediction = task.predict(material, job.settings)
    manifest = reading.manifest
    with watch.phase("score"):
        outcome = score_with_groups(task, prediction, job.settings)
        if job.half:
            outcome = compare_with_full(task, material, job.settings, outcome)
    if model.model.loaded and not loaded_before:
        watch.add("load", model.model.load_seconds)
    result = make_result(
        Done(
            job=job,
            info=manifest.info,
            fingerprint=manifest.fingerprint,
            other_splits={name: session.manifest(job, name).fingerprint for name in task.splits(job.settings)},
            card=model.model.known_card,
            outcome=outcome,
            counts=_counts(manifest, prediction),
            notices=(*job.notes, *manifest.notices, *model.notices(), *outcome.notices),
            failures=[asdict(failure) for failure in (*manifest.failures, *prediction.failures)],
            profile=watch.seconds() | {"total": round(time.perf_counter() - start, 4)},
            measures=task.measures or task.name.replace("_", " "),
            records=task.form_of(manifest.info),
            identity=session.identity(job, task),  # now: a model from a hub is known once it has been loaded
            known=_circumstances(model, watch),
        )
    )
    records = with_thumbnails(outcome.records, manifest.samples(), job.thumbnails)
    return write_result(result, records, job.output, place=job.place if job.append else None)


def _circumstances(model: Stored, watch: Stopwatch) -> dict[str, Any]:
    known: dict[str, Any] = {"device": model.model.device}
    seconds = watch.seconds().get("encode images")
    if isinstance(model, StoredEmbeddings) and model.encoded and seconds:
        known["throughput"] = round(model.encoded / seconds, 2)
    return known


def _counts(manifest: Manifest, prediction: Prediction) -> dict[str, int]:
    """Count samples; no sample disappears: scored + failed + left out == listed."""
    listed = len(manifest) + len(manifest.failures)
    lost = {failure.id for failure in prediction.failures}
    scored, left_out = len({entry.id for entry in prediction.entries} - lost), len(prediction.left_out)
    failed = len(manifest.failures) + len(lost)
    if scored + left_out + failed != listed:
        raise AssertionError(f"{manifest.info.name}: {listed} listed, {scored} scored, {failed} failed")
    counts = {"listed": listed, "scored": scored, "failed": failed}
    return {**counts, "left_out": left_out, **prediction.counts} if left_out else {**counts, **prediction.counts}


def __getattr__(name: str) -> Any:
    """Give what scripts import from here and what has its place among the public names."""
    if name in ("run_task", "evaluate"):
        import eyechart

        return getattr(eyechart, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["JobReport", "results_of", "run_job", "run_jobs", "run_or_skip"]
