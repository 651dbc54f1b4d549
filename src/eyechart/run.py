"""Jobs to results: read, predict, score, save. `run_job` runs any job, whatever its task."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

from eyechart.errors import EyechartError, ResultError
from eyechart.inference.answers import CachedGenerator
from eyechart.inference.embeddings import CachedEncoder
from eyechart.io.stopwatch import Stopwatch
from eyechart.manifest import Manifest
from eyechart.messages import UserMessage
from eyechart.models.access import access_of
from eyechart.models.family import Remote, need_inputs
from eyechart.models.registry import family_of, inputs_of, is_multi_vector
from eyechart.provenance import compute_facts, reset_peak_memory
from eyechart.report.compression_curve import compare_compressions
from eyechart.results.job_results import check_complete, check_owner, is_done, make_result, with_images
from eyechart.results.result import Result, write_result
from eyechart.session import Session, Stored
from eyechart.settings.tasks import TaskSettings
from eyechart.tasks.base import Prediction, Task, TaskContext
from eyechart.tasks.image_caption import USER, ImageCaption, data_folder, prompts
from eyechart.tasks.label_metrics import check_columns, score_with_groups
from eyechart.tasks.registry import load_task
from eyechart.types import Job, ModelSpec, Outcome, Role, digest_json


@dataclass(frozen=True)
class JobReport:
    """Outcome of a job; one that lost too many samples has both a result and an error."""

    job: Job
    result: Result | None = None
    error: EyechartError | None = None
    skipped: bool = False


def results_of(reports: Sequence[JobReport]) -> list[Result]:
    """Return the results of finished jobs, or raise the first error."""
    for report in reports:
        if report.error is not None:
            raise report.error
    return [report.result for report in reports if report.result is not None]


def run_jobs(jobs: Sequence[Job], session: Session, *, skip_existing: bool = False) -> Iterator[JobReport]:
    """Run jobs in order; jobs share loaded models, and a failing job does not stop the others."""
    for job in jobs:
        yield run_or_skip(job, session, skip_existing=skip_existing)


def run_or_skip(job: Job, session: Session, *, skip_existing: bool = False) -> JobReport:
    """Run a job, unless it may be skipped because its result exists."""
    try:
        if skip_existing and (done := skipped(job, session)) is not None:
            return done
        result = run_job(job, session)
        return JobReport(job, result=result, error=check_complete(result, job.min_success))
    except EyechartError as error:
        return JobReport(job, error=error)


def skipped(job: Job, session: Session) -> JobReport | None:
    """Return the report of a job whose result is up to date, else None.

    With a maximum age of answers (``--max_age``), the jobs of API models run: their answers may be too old.
    """
    aged = any(
        access_of(spec).since is not None and isinstance(family_of(spec, role), Remote) for spec, role in models_of(job)
    )
    done = find_done(job, session)[0] if job.output.exists() and not aged else None
    if done is None:
        return None
    return JobReport(job, result=done, error=check_complete(done, job.min_success), skipped=True)


def find_done(job: Job, session: Session) -> tuple[Result | None, str]:
    """Return the job's result if it is complete and up to date; otherwise None and the reason."""
    task = load_task(job.task)
    done, why = is_done(job, session.identity(job, task))
    if done is not None:
        from eyechart.report.paired_records import check_records

        try:
            check_records(done)
        except ResultError as error:
            return None, error.message.rstrip(".")
    if done is not None and not task.is_whole(done.facts, done.details):
        return None, UserMessage("{path} is incomplete, or its files were modified", path=job.output)
    return done, why


def probe_servers(jobs: Sequence[Job], session: Session, *, skip_existing: bool = False) -> None:
    """Probe every server that a job needs, before any job starts; cached answers need no server."""
    probed, rewritten = set[str](), set[str]()
    for job in jobs:
        # Captions that an earlier job rewrites cannot be checked yet.
        if skip_existing and job.dataset.root not in rewritten and skipped(job, session) is not None:
            continue
        captions = job.task == ImageCaption.name
        if captions:
            rewritten.add(str(data_folder(job.output)))
        for spec, role in models_of(job):
            family = family_of(spec, role)
            key = digest_json([type(family).__name__, spec.what])
            if isinstance(family, Remote) and key not in probed and (not captions or missing_captions(job, session)):
                family.probe(spec)
                probed.add(key)


def models_of(job: Job) -> list[tuple[ModelSpec, Role]]:
    """Return the models that a job runs, with their roles."""
    task = load_task(job.task)
    own: list[tuple[ModelSpec, Role]] = [(job.model, task.needs)] if task.settings_of(job).uses_model else []
    return [*own, *((spec, task.roles[part]) for part, spec in job.extra_models.items())]


def missing_captions(job: Job, session: Session) -> list[str]:
    """Return the ids of the images without a cached caption."""
    asked = prompts(session.manifest(job), job.settings["prompt"], job.settings.get("prompt_role", USER))
    return CachedGenerator(session.model(job.model, "generator"), session.answers).unanswered(asked)


def run_job(job: Job, session: Session) -> Result:
    """Read the dataset, predict, score and save the result."""
    start, watch = time.perf_counter(), Stopwatch()
    reset_peak_memory()
    task = load_task(job.task)
    settings = task.settings_of(job)
    check_owner(job)
    if job.output.exists():
        done, why = find_done(job, session)
        if done is not None or why:
            reason = why or UserMessage("{path} already contains this result", path=job.output)
            session.progress.say(UserMessage("{reason}; overwriting it", reason=reason))
    model = session.cached_model(job, task, watch)
    loaded_before = model.model.loaded
    if isinstance(model, CachedEncoder):
        _check_encoder(job, task, model, session)
    with watch.phase("read"):
        reading = session.reading(job)
        if task.needs != "encoder" or settings.splits:  # these compare images before encoding any
            _ = reading.manifest
    if settings.groups:
        check_columns(reading.outline, settings.groups)
    context = TaskContext(
        listed=reading,
        model=model,
        open_split=partial(session.manifest, job),
        output=job.place,
        open_extra_model=partial(session.cached_model, job, task, watch),
        extra_models=tuple(job.extra_models),
        device=job.model.device.partition(",")[0],
        on_error=job.on_error,
        progress=session.progress,
    )
    predicting = time.perf_counter()
    prediction = task.predict(context, settings)
    predicting = time.perf_counter() - predicting
    manifest = reading.manifest
    with watch.phase("score"):
        outcome = score_with_groups(task, prediction, settings)
    counts = _counts(manifest, prediction)
    failures = [asdict(failure) for failure in (*manifest.failures, *prediction.failures)]
    del prediction  # compressed vectors need its memory
    outcome = _score_compressed(job, task, context, settings, outcome)
    if model.model.loaded and not loaded_before:
        watch.add("load", model.model.load_seconds)
    origins = {} if isinstance(model, CachedEncoder) else model.origins.details()
    if origins:
        outcome = replace(outcome, details={**outcome.details, "answers": origins})
    seconds = watch.seconds()
    predicting -= 0 if loaded_before else model.model.load_seconds
    facts = compute_facts(model.model.device) | _throughput(job, model, seconds, predicting)
    result = make_result(
        job=job,
        info=manifest.info,
        fingerprint=manifest.fingerprint,
        other_splits={name: session.manifest(job, name).fingerprint for name in settings.splits},
        card=model.model.known_card,
        outcome=outcome,
        counts=counts,
        notices=dict.fromkeys(
            (*job.notes, *manifest.notices, *(model.notices() if settings.uses_model else ()), *outcome.notices)
        ),
        failures=failures,
        profile=seconds | {"total": round(time.perf_counter() - start, 4)},
        measures=manifest.info.measures or task.measures or task.name.replace("_", " "),
        records=task.record_form(manifest.info),
        identity=session.identity(job, task),  # now: a hub model's identity is known once it is loaded
        known=facts,
    )
    records = with_images(outcome.records, manifest.samples(), job.thumbnails, manifest.image_digests(), manifest.info)
    return write_result(result, records, job.output, place=job.place if job.append else None)


def _throughput(job: Job, model: Stored, seconds: Mapping[str, float], predicting: float) -> dict[str, Any]:
    """Return the speed of new vectors or answers; empty if all were cached, or a judge model took part of the time."""
    if isinstance(model, CachedEncoder):
        done, spent, unit = model.pipeline.encoded, seconds.get("encode images"), "images/s"
    else:
        done, spent, unit = 0 if job.extra_models else model.origins.generated, predicting, "answers/s"
    return {"throughput": round(done / spent, 2), "throughput_unit": unit} if done and spent else {}


def _check_encoder(job: Job, task: Task, encoder: CachedEncoder, session: Session) -> None:
    """Refuse an encoder whose inputs or vectors do not suit the task, before data are read.

    It is loaded if its files do not tell.
    """
    if not task.multi_vector and task.settings_of(job).uses_model and is_multi_vector(job.model) is not False:
        task.check_vectors(job.model.label, several=encoder.card.multi_vector)
    if wanted := task.inputs_of(session.datasets.open(job.dataset).info, task.settings_of(job)):
        known = inputs_of(encoder.model.family, job.model)
        need_inputs(job.model.label, encoder.card.inputs if known is None else known, wanted)
    if any(compressions := _compressions(job)):
        encoder.prepare_compression(*compressions)


def _compressions(job: Job) -> tuple[list[int], list[str]]:
    return job.settings.get("truncate_dim", []), job.settings.get("quantize", [])


def _score_compressed(job: Job, task: Task, context: TaskContext, settings: TaskSettings, full: Outcome) -> Outcome:
    """Add the scores of the stored vectors in every requested dimension and precision; nothing is encoded again."""
    if not any(_compressions(job)):
        return full
    unneeded = {"save_clf": None, "prompt_sensitivity": "no"}
    settings = settings.replaced(**{name: unneeded[name] for name in unneeded.keys() & settings.fields().keys()})
    points = chain(
        [(context.encoder.describe_vectors(), full)],
        (
            (encoder.describe_vectors(), task.score(task.predict(replace(context, model=encoder), settings), settings))
            for encoder in context.encoder.compressed(*_compressions(job))
        ),
    )
    quoted = job.dataset.options.get("metric", "")
    curve = compare_compressions(full, points, quoted, task.record_form(context.info))
    return replace(full, details={**full.details, "compression": curve})


def _counts(manifest: Manifest, prediction: Prediction) -> dict[str, int]:
    """Count samples; none may disappear: scored + failed + left out == listed."""
    listed = len(manifest) + len(manifest.failures)
    lost = {failure.id for failure in prediction.failures}
    scored, left_out = len({entry.id for entry in prediction.entries} - lost), len(prediction.left_out)
    failed = len(manifest.failures) + len(lost)
    if scored + left_out + failed != listed:
        raise AssertionError(f"{manifest.info.name}: {listed} listed, {scored} scored, {failed} failed")
    counts = {"listed": listed, "scored": scored, "failed": failed}
    return {**counts, **({"left_out": left_out} if left_out else {}), **prediction.counts}
