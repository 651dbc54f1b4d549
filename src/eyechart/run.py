"""From jobs to results: load, predict, score, save. The only orchestration."""

from __future__ import annotations

import dataclasses
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Any

from eyechart import plugins
from eyechart.config import Config, make_config
from eyechart.errors import EyechartError
from eyechart.inference.embeddings import LocalEmbeddings
from eyechart.io.progress import Bar, NoProgress, Progress
from eyechart.io.stopwatch import Stopwatch
from eyechart.io.thumbnails import with_thumbnails
from eyechart.manifest import Failure, Manifest, read_manifest
from eyechart.models.family import Family, LazyEncoder
from eyechart.plan import make_plan, open_dataset
from eyechart.provenance import provenance
from eyechart.results import Result, is_done, write_result
from eyechart.store.vectors import EmbeddingStore, store_place
from eyechart.tasks.base import Material, NoEncoder, Prediction, Task, Writer
from eyechart.tasks.groups import check_columns, score_with_groups
from eyechart.types import Answer, Fetchable, Job, Metric, ModelCard, ModelSpec, Notice, Outcome, Prompt, digest_json

MAX_MANIFESTS = 32
"""Listings that are kept for the next model; a manifest holds ids and captions, not images."""


@dataclass(frozen=True)
class JobReport:
    """How one job ended."""

    job: Job
    result: Result | None = None
    error: EyechartError | None = None
    skipped: bool = False


@dataclass
class Session:
    """What the jobs of one run share: the store, the manifests, where progress goes."""

    progress: Progress = field(default_factory=NoProgress)
    store: EmbeddingStore = field(default_factory=lambda: EmbeddingStore(store_place()))
    _manifests: dict[str, Manifest] = field(default_factory=dict)

    def manifest(self, job: Job, split: str | None = None) -> Manifest:
        """Read a dataset once, however many models and tasks use it; another split is always read whole."""
        spec = job.dataset if split is None else dataclasses.replace(job.dataset, split=split, limit=None)
        key = digest_json([dataclasses.asdict(spec), job.on_error, job.settings.get("prompts")])
        if key not in self._manifests:
            if len(self._manifests) >= MAX_MANIFESTS:
                self._manifests.pop(next(iter(self._manifests)))
            dataset = open_dataset(spec)
            if isinstance(dataset, Fetchable):
                dataset.fetch(self.progress)
            self._manifests[key] = read_manifest(
                dataset, limit=spec.limit, on_error=job.on_error, progress=self.progress
            )
        return self._manifests[key]


def evaluate(progress: Progress | None = None, **settings: Any) -> list[Result]:
    """Evaluate models on benchmarks and return the results; the settings are those of `eyechart.config.Config`.

    Raises:
        EyechartError: The first error, after all other jobs have been done and saved.
    """
    config = make_config(settings)
    reports = list(run_jobs(plan_jobs(config), config, progress))
    for report in reports:
        if report.error is not None:
            raise report.error
    return [report.result for report in reports if report.result is not None]


def plan_jobs(config: Config, say: Callable[[str], object] = warnings.warn) -> list[Job]:
    """Expand settings into jobs, of encoders or of generators: the datasets tell which."""
    from eyechart.vlm.plan import are_questions, plan_questions

    return plan_questions(config) if are_questions(config.dataset) else make_plan(config, say)


def run_jobs(
    jobs: Sequence[Job], config: Config, progress: Progress | None = None, session: Session | None = None
) -> Iterator[JobReport]:
    """Run jobs one after the other; jobs of one model share it, and a failing job does not stop the others."""
    session = session or Session(progress or NoProgress())
    for spec, group in groupby(jobs, key=lambda job: job.model):
        members = list(group)
        run = _runner(members[0], spec, session, config)
        for job in members:
            if config.skip_existing:
                done, why = is_done(job)
                if done is not None:
                    yield JobReport(job, result=done, skipped=True)
                    continue
                if job.output.exists():
                    session.progress.say(f"Not skipped: {why}")
            try:
                yield JobReport(job, result=run(job))
            except EyechartError as error:
                yield JobReport(job, error=error)


def _runner(job: Job, spec: ModelSpec, session: Session, config: Config) -> Callable[[Job], Result]:
    """Return what runs the jobs of one model, which is loaded once."""
    from eyechart.vlm.plan import TASK as QUESTIONS

    if job.task == QUESTIONS:
        from eyechart.vlm.run import Questionnaire

        return Questionnaire(config, session.progress).run
    if plugins.load("tasks", job.task).needs == "generator":
        from eyechart.vlm.connect import open_generator
        from eyechart.vlm.plan import access_of

        writer = open_generator(spec, access_of(config, config.questions.api_key_variable))
        return partial(run_writing_job, writer=writer, session=session, config=config)
    return partial(run_job, model=open_model(spec), session=session, config=config)


def open_model(spec: ModelSpec) -> LazyEncoder:
    """Prepare a model that is loaded when it is first needed."""
    family: Family = plugins.load("models", spec.family)()
    return LazyEncoder(spec, family)


def run_job(job: Job, model: LazyEncoder, session: Session, config: Config) -> Result:
    """Read the dataset, predict, score and save one result."""
    start = time.perf_counter()
    task: Task = plugins.load("tasks", job.task)()
    watch, loaded_before = Stopwatch(), model.loaded
    with watch.phase("read"):
        manifest = session.manifest(job)
    check_columns(manifest.entries, job.settings)
    embeddings = LocalEmbeddings(
        model,
        session.store,
        batch_size=job.batch_size,
        workers=job.workers,
        on_error=job.on_error,
        progress=session.progress,
        watch=watch,
    )
    first_device = job.model.device.partition(",")[0]
    material = Material(manifest, embeddings, partial(session.manifest, job), first_device, job.on_error)
    prediction = task.predict(material, job.settings)
    with watch.phase("score"):
        outcome = score_with_groups(task, prediction, job.settings)
    notices = (*manifest.notices, *embeddings.notices(), *outcome.notices)
    if model.loaded and not loaded_before:
        watch.add("load", model.load_seconds)
    profile = watch.seconds() | {"total": round(time.perf_counter() - start, 4)}
    result = make_result(job, manifest, model.card, prediction, outcome, notices, profile)
    known: dict[str, Any] = {"device": model.device}
    if embeddings.encoded and profile.get("encode images"):
        known["throughput"] = round(embeddings.encoded / profile["encode images"], 2)
    result = dataclasses.replace(result, provenance=dict(result.provenance) | known)
    records = with_thumbnails(outcome.records, manifest.samples(), config.thumbnails)
    return write_result(with_dumps(result, manifest, config), records, job.output)


def run_writing_job(job: Job, writer: Writer, session: Session, config: Config) -> Result:
    """Do the same with a generator, whose answers are stored instead of vectors."""
    start = time.perf_counter()
    task: Task = plugins.load("tasks", job.task)()
    manifest = session.manifest(job)
    check_columns(manifest.entries, job.settings)
    model = NoEncoder(writer.card)
    material = Material(manifest, model, partial(session.manifest, job), job.model.device, job.on_error, writer)
    with session.progress.step(f"asking about {manifest.info.name}", len(manifest)) as bar:
        prediction = task.predict(dataclasses.replace(material, writer=_Counted(writer, bar)), job.settings)
    outcome = score_with_groups(task, prediction, job.settings)
    notices = (*manifest.notices, *model.notices(), *outcome.notices)
    profile = {"total": round(time.perf_counter() - start, 4)}
    result = make_result(job, manifest, writer.card, prediction, outcome, notices, profile)
    records = with_thumbnails(outcome.records, manifest.samples(), config.thumbnails)
    return write_result(with_dumps(result, manifest, config), records, job.output)


@dataclass(frozen=True)
class _Counted:
    """A writer whose answers advance a bar."""

    writer: Writer
    bar: Bar

    @property
    def card(self) -> ModelCard:
        return self.writer.card

    def ask(self, prompts: Iterable[Prompt]) -> Iterator[tuple[str, Answer]]:
        for answered in self.writer.ask(prompts):
            self.bar.advance()
            yield answered


def make_result(
    job: Job,
    manifest: Manifest,
    card: ModelCard,
    prediction: Prediction,
    outcome: Outcome,
    notices: Sequence[Notice],
    profile: Mapping[str, float],
) -> Result:
    """Put everything that is known about a finished job into a result."""
    failures = [*manifest.failures, *prediction.failures]
    info = manifest.info
    return Result(
        dataset=job.dataset.name,
        model=job.model.name,
        pretrained=job.model.pretrained,
        task=job.task,
        language=job.dataset.language,
        metrics={name: metric.value for name, metric in outcome.metrics.items()},
        intervals={name: _interval(metric) for name, metric in outcome.metrics.items() if metric.low is not None},
        chance={name: metric.chance for name, metric in outcome.metrics.items() if metric.chance is not None},
        counts=_counts(manifest, prediction, failures),
        notices=tuple(dataclasses.asdict(notice) for notice in notices),
        failures=tuple(dataclasses.asdict(failure) for failure in failures),
        details=outcome.details,
        model_card=dataclasses.asdict(card) | {"fingerprint": card.fingerprint},
        data={
            "fingerprint": manifest.fingerprint,
            "split": info.split,
            "kind": info.kind,
            "source": info.source,
            "prompts_digest": job.settings.get("prompts"),
            "main_metric": _main_metric(job, outcome),
            "n_classes": len(info.classnames) or None,
        },
        provenance=provenance() | {"precision": card.precision, "seconds": profile["total"], "profile": profile},
        job={"digest": job.digest, "settings": dict(job.settings), "on_error": job.on_error}
        | {"model_type": job.model.family, "reader": job.dataset.reader, "limit": job.dataset.limit}
        | {"caption_cleaning": job.dataset.options.get("caption_cleaning")},
    )


def with_dumps(result: Result, manifest: Manifest, config: Config) -> Result:
    """Add class names and templates where CLIP_benchmark puts them, if asked to."""
    extra: dict[str, Any] = {}
    if config.dump_classnames:
        extra["classnames"] = list(manifest.info.classnames)
    if config.dump_templates:
        extra["templates"] = dict(manifest.info.class_prompts) or list(manifest.info.templates)
    return dataclasses.replace(result, extra=extra)


def _main_metric(job: Job, outcome: Outcome) -> str | None:
    """Return the metric that the catalogue quotes for this dataset, if this task has it."""
    name = job.dataset.options.get("metric")
    return str(name) if name in outcome.metrics else None


def _interval(metric: Metric) -> tuple[float, float]:
    return (metric.low if metric.low is not None else 0.0, metric.high if metric.high is not None else 1.0)


def _counts(manifest: Manifest, prediction: Prediction, failures: Sequence[Failure]) -> dict[str, int]:
    """Count samples; no sample disappears: scored + failed == listed."""
    listed = len(manifest) + len(manifest.failures)
    scored = len(prediction.entries)
    if scored + len(failures) != listed:
        raise AssertionError(f"{manifest.info.name}: {listed} listed, {scored} scored, {len(failures)} failed")
    return {"listed": listed, "scored": scored, "failed": len(failures)}
