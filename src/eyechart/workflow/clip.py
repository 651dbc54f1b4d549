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
from eyechart.task_config.schema import CAPTION, COMPARISON, DEFAULT_PROMPT, ClipEval, VisionModel
from eyechart.tasks import image_caption
from eyechart.types import Job
from eyechart.workflow.captions import CaptionStep
from eyechart.workflow.comparison import ComparisonStep
from eyechart.workflow.context import Context, Step
from eyechart.workflow.layout import Layout, result_path
from eyechart.workflow.models import access_of, encoder_spec, generator_spec
from eyechart.workflow.retrieval import plan_stages, split_models
from eyechart.workflow.text_models import plan_text
from eyechart.workflow.texts import TextStep

SPLIT = "test"
"""The relevance of captioned data is always written under this name."""
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
    budget = Budget(settings.max_requests, settings.max_total_tokens)
    if settings.task == CAPTION:
        return [
            caption_step(entry, name, settings, layout, budget)
            for entry in settings.models
            for name in settings.dataset_name
        ]
    if settings.task == COMPARISON:
        return comparison_steps(settings, layout, seed, budget)
    return [encoder_step(entry, settings, layout, seed) for entry in settings.models]


def comparison_steps(settings: ClipEval, layout: Layout, seed: int, budget: Budget) -> list[Step]:
    """Plan captions, text models on the captions, CLIP-like models on the pictures, and the table of all."""
    clips = settings.model_copy(update={"task": "zeroshot_retrieval"})
    seeing = [encoder_step(entry, clips, layout, seed) for entry in settings.models]
    planned = [plan_text(entry, settings, budget, {}) for entry in settings.text_models]
    encoders, rerankers = split_models(planned) if planned else ((), ())
    captioning: list[CaptionStep] = []
    reading: list[TextStep] = []
    tables: list[ComparisonStep] = []
    for name in settings.dataset_name:
        outputs = [job.output for step in seeing for job in step.jobs if job.dataset.name == name]
        for entry in settings.caption_models:
            captions = caption_step(entry, name, settings, layout, budget)
            captioning.append(captions)
            for encoder in encoders:
                texts = TextStep(
                    name=name,
                    folder=captions.folder,
                    split=SPLIT,
                    encoder=encoder,
                    rerankers=rerankers,
                    stages=plan_stages(layout, name, encoder, rerankers, before=(captions.label,)),
                    top_k=settings.top_k,
                    skip_existing=settings.skip_existing,
                    dry_run=settings.dry_run,
                    extra=(("captions_by", entry.model_name), ("caption_prompt", captions.job.settings["prompt"])),
                )
                reading.append(texts)
                outputs += [stage.output for stage in texts.stages]
        if not settings.dry_run:
            tables.append(ComparisonStep(name, tuple(outputs), layout.root, tuple(settings.recall_k)))
    return [*captioning, *([] if settings.dry_run else seeing), *reading, *tables]


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
