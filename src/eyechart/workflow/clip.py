"""The tool ``clip_benchmark``: models and datasets of a config to planned steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from eyechart import plugins
from eyechart.api import Budget
from eyechart.config import Config, make_config
from eyechart.generators.base import GeneratorFamily
from eyechart.plan import Planner, make_plan
from eyechart.run import JobReport, run_jobs
from eyechart.task_config.schema import CAPTION, DEFAULT_PROMPT, ClipEval, VisionModel
from eyechart.tasks import image_caption
from eyechart.types import Job
from eyechart.workflow.captions import CaptionStep
from eyechart.workflow.context import Context, Step
from eyechart.workflow.layout import Layout, result_path
from eyechart.workflow.models import access_of, encoder_spec, generator_spec

LOCAL_BATCH = 8
"""Pictures per forward pass of a local generator, at most: a batch of 128 prompts with pictures fits nowhere."""


@dataclass(frozen=True)
class ClipStep:
    """One CLIP-like model on its datasets."""

    jobs: tuple[Job, ...]
    config: Config

    def probe(self, context: Context) -> None:
        """Nothing is elsewhere: weights are fetched when the model is loaded."""

    def run(self, context: Context) -> Iterator[JobReport]:
        """Run the jobs; the model is loaded once."""
        yield from run_jobs(self.jobs, self.config, session=context.session)


def clip_steps(settings: ClipEval, layout: Layout, seed: int) -> list[Step]:
    """Plan every model on every dataset."""
    if settings.task == CAPTION:
        budget = Budget(settings.max_requests, settings.max_total_tokens)
        return [
            caption_step(entry, name, settings, layout, budget)
            for entry in settings.models
            for name in settings.dataset_name
        ]
    return [encoder_step(entry, settings, layout, seed) for entry in settings.models]


def encoder_step(entry: VisionModel, settings: ClipEval, layout: Layout, seed: int) -> ClipStep:
    """Plan one CLIP-like model on all datasets."""
    spec = encoder_spec(entry)
    identity = [spec.family, spec.pretrained, spec.precision, dict(spec.options)]
    folder = layout.model_folder([entry.model_name], identity)
    jobs: list[Job] = []
    for name in settings.dataset_name:
        config = dataset_config(settings, name).model_copy(
            update={
                "model": [spec.name],
                "pretrained": [spec.pretrained],
                "model_type": spec.family,
                "model_options": dict(spec.options),
                "precision": entry.precision,
                "device": entry.device,
                "task": [settings.task or "auto"],
                "seed": seed,
            }
        )
        jobs += [
            replace(job, output=result_path(folder, name, job.task, settings.language)) for job in make_plan(config)
        ]
    return ClipStep(tuple(jobs), config)


def caption_step(entry: VisionModel, name: str, settings: ClipEval, layout: Layout, budget: Budget) -> CaptionStep:
    """Plan one generator on one dataset."""
    spec = generator_spec(entry)
    family: GeneratorFamily = plugins.load("generators", spec.family)()
    family.check(spec)
    prompt = entry.prompt or DEFAULT_PROMPT
    folder = layout.model_folder([entry.model_name], [dict(spec.options), spec.precision, prompt])
    planner = Planner(dataset_config(settings, name))
    dataset_spec = planner.dataset_spec(name, settings.language)
    job = Job(
        model=spec,
        dataset=dataset_spec,
        task=CAPTION,
        settings={
            "prompt": prompt,
            "task_version": image_caption.VERSION,
            "data": planner.open(dataset_spec).signature(),
        },
        output=result_path(folder, name, CAPTION, settings.language),
        on_error=settings.on_error,
    )
    access = access_of(
        entry,
        settings,
        budget,
        concurrency=settings.requests_at_a_time,
        batch_size=min(settings.batch_size, LOCAL_BATCH),
    )
    return CaptionStep(job, access, settings.skip_existing, settings.dry_run)


def dataset_config(settings: ClipEval, name: str) -> Config:
    """Return the settings of `eyechart.config` that say which data are read and how."""
    root = settings.data_dir.get(name) if isinstance(settings.data_dir, dict) else settings.data_dir
    values = {
        "dataset": [name],
        "split": settings.split,
        "language": [settings.language],
        "recall_k": settings.recall_k,
        "batch_size": settings.batch_size,
        "num_workers": settings.num_workers,
        "on_error": settings.on_error,
        "limit": settings.limit,
        "skip_existing": settings.skip_existing,
        "wds_cache_dir": settings.cache_dir,
    }
    return make_config(values | ({"dataset_root": root} if root else {}))
