"""The tool ``clip_benchmark``: models and datasets of a config to planned steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from eyechart import plugins
from eyechart.api import Budget
from eyechart.compat.evalscope.captions import CaptionStep
from eyechart.compat.evalscope.comparison import ComparisonStep
from eyechart.compat.evalscope.context import Context, Step
from eyechart.compat.evalscope.layout import Layout, result_path
from eyechart.compat.evalscope.models import access_of, encoder_spec, generator_spec
from eyechart.compat.evalscope.retrieval import plan_stages, split_models
from eyechart.compat.evalscope.schema import CAPTION, COMPARISON, DEFAULT_PROMPT, ClipEval, VisionModel
from eyechart.compat.evalscope.text_models import plan_text
from eyechart.compat.evalscope.texts import TextStep
from eyechart.config import Config, make_config
from eyechart.datasets.catalogue import load_catalogue
from eyechart.datasets.layout import is_webdataset
from eyechart.models.generators.family import GeneratorFamily
from eyechart.plan import Planner, make_plan
from eyechart.run import JobReport, run_jobs
from eyechart.tasks import image_caption
from eyechart.types import Job

SPLIT = "test"
"""The relevance of captioned data is always written under this name."""
LOCAL_BATCH = 8
"""Images per forward pass of a local generator, at most: a batch of 128 prompts with images fits nowhere."""


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
            for name in dataset_names(settings)
        ]
    if settings.task == COMPARISON:
        return comparison_steps(settings, layout, seed, budget)
    return [encoder_step(entry, settings, layout, seed) for entry in settings.models]


def comparison_steps(settings: ClipEval, layout: Layout, seed: int, budget: Budget) -> list[Step]:
    """Plan captions, text models on the captions, CLIP-like models on the images, and the table of all."""
    clips = settings.model_copy(update={"task": "zeroshot_retrieval"})
    seeing = [encoder_step(entry, clips, layout, seed) for entry in settings.models]
    planned = [plan_text(entry, settings, budget, {}) for entry in settings.text_models]
    encoders, rerankers = split_models(planned) if planned else ((), ())
    captioning: list[CaptionStep] = []
    reading: list[TextStep] = []
    tables: list[ComparisonStep] = []
    for name in dataset_names(settings):
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
    for name in dataset_names(settings):
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
        jobs += [replace(job, output=output_of(settings, folder, name, job.task)) for job in make_plan(config)]
    return ClipStep(tuple(jobs), config)


def caption_step(entry: VisionModel, name: str, settings: ClipEval, layout: Layout, budget: Budget) -> CaptionStep:
    """Plan one generator on one dataset."""
    spec = generator_spec(entry)
    family: GeneratorFamily = plugins.load("generators", spec.family)()
    family.check(spec)
    prompt = entry.prompt or DEFAULT_PROMPT
    folder = layout.model_folder([entry.model_name], [dict(spec.options), spec.precision, prompt])
    planner = Planner(dataset_config(settings, name))
    dataset_spec = planner.dataset_spec(name, language_of(settings, name))
    job = Job(
        model=spec,
        dataset=dataset_spec,
        task=CAPTION,
        settings={
            "prompt": prompt,
            "task_version": image_caption.VERSION,
            "data": planner.open(dataset_spec).signature(),
        },
        output=output_of(settings, folder, name, CAPTION),
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


def dataset_names(settings: ClipEval) -> list[str]:
    """Return the datasets' names, collections expanded."""
    return Planner(make_config({"dataset": settings.dataset_name})).datasets()


def language_of(settings: ClipEval, name: str) -> str:
    """Return the language to read a dataset in: as asked, else English, else the dataset's own first one."""
    entry = load_catalogue().find(name)
    if settings.language or entry is None or not entry.languages or entry.own_language("en") is not None:
        return settings.language or "en"
    return entry.languages[0]


def output_of(settings: ClipEval, folder: Path, name: str, task: str) -> Path:
    """Return where a result goes; the language is part of its name only if it was asked for."""
    return result_path(folder, name, task, settings.language or "en")


def dataset_config(settings: ClipEval, name: str) -> Config:
    """Return the settings of `eyechart.config` that say which data are read and how."""
    root = settings.data_dir.get(name) if isinstance(settings.data_dir, dict) else settings.data_dir
    values = {
        "dataset": [name],
        "split": settings.split,
        "language": [language_of(settings, name)],
        "recall_k": settings.recall_k,
        "batch_size": settings.batch_size,
        "num_workers": settings.num_workers,
        "on_error": settings.on_error,
        "limit": settings.limit,
        "skip_existing": settings.skip_existing,
        "wds_cache_dir": settings.cache_dir,
        "dataset_hub": settings.hub,
    }
    found = root or in_cache(settings, name)
    return make_config(values | ({"dataset_root": found} if found else {}))


def in_cache(settings: ClipEval, name: str) -> str | None:
    """Find a webdataset that was put into the cache folder by hand, where EvalScope keeps its own."""
    folders = (Path(settings.cache_dir) / folder for folder in (name, f"wds_{name}"))
    return next((str(folder) for folder in folders if is_webdataset(folder)), None)
