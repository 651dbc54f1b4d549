"""From a config to jobs, and to the tables that are made of their results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eyechart.api import Budget
from eyechart.compat.evalscope.comparison import ComparisonPlan
from eyechart.compat.evalscope.layout import Layout, holds_other_captions, result_path
from eyechart.compat.evalscope.models import vision_access, vision_spec
from eyechart.compat.evalscope.schema import CAPTION, COMPARISON, ClipConfig, ClipEval, VisionModel
from eyechart.compat.evalscope.task_config import TaskConfig
from eyechart.compat.evalscope.text_jobs import TextModels, Texts, text_jobs, tool_jobs
from eyechart.config import Config, make_config
from eyechart.datasets.catalogue import load_catalogue
from eyechart.datasets.layout import is_webdataset
from eyechart.outputs import check_outputs
from eyechart.plan import Planner, dataset_names, dataset_spec, task_options
from eyechart.tasks.captions.image_caption import data_folder, way_of
from eyechart.types import Job


@dataclass(frozen=True)
class Translation:
    """What a config asks for."""

    jobs: tuple[Job, ...]
    skip_existing: bool
    dry_run: bool
    comparisons: tuple[ComparisonPlan, ...] = ()


@dataclass
class Translator:
    """Turns the configs of a run into jobs. Whatever cannot work is refused here, before any work."""

    planner: Planner = field(default_factory=Planner)
    jobs: list[Job] = field(default_factory=list)
    """Those of all configs so far."""

    def translate(self, config: TaskConfig, layout: Layout) -> Translation:
        """Return the jobs of one config."""
        inner = config.eval_config
        if isinstance(inner, ClipConfig):
            found = _ClipTranslation(inner.eval, layout, self.planner, config.seed).translate()
        else:
            settings = inner.eval
            skip = settings.skip_existing or not settings.overwrite_results
            promised = {data_folder(job.output).resolve() for job in self.jobs if job.task == CAPTION}
            jobs = tuple(tool_jobs(inner, layout, self.planner, promised))
            found = Translation(jobs, skip, settings.dry_run)
        self.jobs += found.jobs
        check_outputs(list({(job.output, job.digest): job for job in self.jobs}.values()))
        return found


@dataclass
class _ClipTranslation:
    """The tool ``clip_benchmark``."""

    settings: ClipEval
    layout: Layout
    planner: Planner
    seed: int

    def __post_init__(self) -> None:
        self.budget = Budget(self.settings.max_requests, self.settings.max_total_tokens)
        self.names = dataset_names(make_config({"dataset": self.settings.dataset_name}))

    def translate(self) -> Translation:
        settings = self.settings
        if settings.task == COMPARISON:
            return self._comparison()
        jobs = tuple(self._jobs(settings.models, settings.task or "auto"))
        return Translation(jobs, settings.skip_existing, settings.dry_run)

    def _jobs(self, models: Sequence[VisionModel], task: str) -> Iterator[Job]:
        for entry in models:
            for name in self.names:
                yield self._job(entry, name, task)

    def _job(self, entry: VisionModel, name: str, task: str) -> Job:
        """Plan one model on one dataset."""
        settings = self.settings
        config = self._config(name)
        options = task_options(config) | {"caption_prompt": entry.prompt, "prompt_role": entry.prompt_role}
        benchmark = self.planner.benchmark(dataset_spec(config, name, config.language[0]), task, options)
        role = benchmark.task.needs
        spec = vision_spec(entry, role, vision_access(entry, role, settings, self.budget))

        def output_in(folder: Path) -> Path:
            return result_path(folder, name, benchmark.task_name, settings.language or "en")

        def taken(folder: Path) -> bool:
            return benchmark.task_name == CAPTION and holds_other_captions(
                output_in(folder), way_of(spec, benchmark.settings)
            )

        identity = [spec.what, entry.prompt, entry.prompt_role]
        output = output_in(self.layout.model_folder([entry.model_name], identity, taken))
        if not (settings.skip_existing and output.exists()):  # see `eyechart.plan.plan_jobs`
            benchmark.task.check_family(self.planner.check(spec, role))
        return benchmark.job(
            spec,
            output,
            batch_size=settings.batch_size,
            workers=settings.num_workers,
            on_error=settings.on_error,
            **({} if settings.min_success is None else {"min_success": settings.min_success}),
        )

    def _comparison(self) -> Translation:
        """Plan captions, text models on the captions, CLIP-like models on the images, and the table of all."""
        settings = self.settings
        seeing = list(self._jobs(settings.models, "zeroshot_retrieval"))
        captioning = list(self._jobs(settings.caption_models, CAPTION))
        reading = [job for captions in captioning for job in self._search(captions)]
        tables = tuple(
            ComparisonPlan(
                name,
                tuple(job.output for job in (*seeing, *reading) if job.dataset.name == name),
                self.layout.root,
                tuple(settings.recall_k),
            )
            for name in self.names
        )
        jobs = (*captioning, *seeing, *reading)
        return Translation(jobs, settings.skip_existing, settings.dry_run, tables)

    def _search(self, captions: Job) -> Iterator[Job]:
        """Plan the text models on the captions of one generator."""
        texts = Texts(
            captions.dataset.name,
            data_folder(captions.output),
            promised=True,
            writer=captions.output.parent.name,
            options={"captions_by": captions.model.name, "caption_prompt": captions.settings["prompt"]},
        )
        models = TextModels.of(self.settings.text_models, self.settings, self.budget, {})
        yield from text_jobs(texts, models, self.settings.top_k, self.layout, self.planner)

    def _config(self, name: str) -> Config:
        """Return the settings of `eyechart.config` that say which data are read and how."""
        settings = self.settings
        roots = settings.data_dir
        root = (roots.get(name) if isinstance(roots, dict) else roots) or self._in_cache(name)
        values: dict[str, Any] = {
            "dataset": [name],
            "split": settings.split,
            "language": [self._language(name)],
            "recall_k": settings.recall_k,
            "batch_size": settings.batch_size,
            "limit": settings.limit,
            "seed": self.seed,
            "wds_cache_dir": settings.cache_dir,
            "dataset_hub": settings.hub,
            "encoding": settings.encoding,
            "on_error": settings.on_error,
        }
        return make_config(values | ({"dataset_root": root} if root else {}))

    def _language(self, name: str) -> str:
        """Return the language to read a dataset in: as asked, else English, else the dataset's own first one."""
        entry = load_catalogue().find(name)
        wished = self.settings.language
        if wished or entry is None or not entry.languages or entry.own_language("en") is not None:
            return wished or "en"
        return entry.languages[0]

    def _in_cache(self, name: str) -> str | None:
        """Find a webdataset that was put into the cache folder by hand, where EvalScope keeps its own."""
        folders = (Path(self.settings.cache_dir) / folder for folder in (name, f"wds_{name}"))
        return next((str(folder) for folder in folders if is_webdataset(folder)), None)
