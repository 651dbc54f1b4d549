"""Jobs and comparison tables from a config."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, cast

from eyechart.api import Budget
from eyechart.compat.evalscope.models import encode_options, text_spec, vision_spec
from eyechart.compat.evalscope.schema import (
    CAPTION,
    COMPARISON,
    RERANKING,
    ClipConfig,
    ClipEval,
    MtebEval,
    TextModel,
    VisionModel,
)
from eyechart.compat.evalscope.task_config import TaskConfig
from eyechart.config import Config, make_config
from eyechart.datasets.catalogue import load_catalogue
from eyechart.datasets.locations import is_webdataset
from eyechart.datasets.mteb import MtebDataset, tasks_of_types
from eyechart.datasets.text_collection import has_images
from eyechart.errors import UsageError
from eyechart.models.access import access_of
from eyechart.outputs import RunFolder, check_outputs, file_name, holds_other_captions, label, result_path
from eyechart.plan import PlannedBenchmark, Planner, dataset_names, dataset_spec, task_options
from eyechart.report.retrieval_comparison import ComparisonPlan
from eyechart.settings.tasks import ImageCaptionSettings
from eyechart.tasks.image_caption import data_folder, way_of
from eyechart.tasks.mteb import WITH_RERANKER
from eyechart.types import DatasetSpec, EncodeOptions, Job, ModelSpec

RETRIEVAL, MIXED, MTEB = "text_retrieval", "zeroshot_retrieval", "mteb"
RECALL = {"recall_k": [1, 5, 10]}
CACHE = "cache"
"""Data of MTEB's built-in tasks in subfolders of this folder are used without network access."""


@dataclass(frozen=True)
class Translation:
    """Jobs and tables of a config."""

    jobs: tuple[Job, ...]
    skip_existing: bool
    dry_run: bool
    comparisons: tuple[ComparisonPlan, ...] = ()


def translate(configs: Sequence[TaskConfig], folders: Mapping[Path, RunFolder]) -> list[Translation]:
    """Turn the configs of a run into jobs, rejecting everything invalid before any work."""
    planner = Planner()
    found: list[Translation] = []
    every: list[Job] = []
    for config in configs:
        inner, settings, target = config.eval_config, config.eval_config.eval, folders[config.folder]
        budget = Budget(settings.max_requests, settings.max_total_tokens)
        tables: list[ComparisonPlan] = []
        skip = settings.skip_existing
        if isinstance(inner, ClipConfig):
            jobs, tables = _VisionModels(inner.eval, budget, target, planner, config.seed).plan()
        else:
            skip |= not inner.eval.overwrite_results
            promised = {data_folder(job.output).resolve() for job in every if job.task == CAPTION}
            search = TextSearch(inner.models, inner.eval, inner.eval.encode_kwargs, budget, target, planner)
            jobs = [*search.custom_jobs(inner.eval, promised), *search.mteb_jobs(inner.eval)]
        found.append(Translation(tuple(jobs), skip, settings.dry_run, tuple(tables)))
        every += jobs
    check_outputs(list({(job.output, job.digest): job for job in every}.values()))
    return found


@dataclass(frozen=True)
class _VisionModels:
    """The tool ``clip_benchmark``."""

    settings: ClipEval
    budget: Budget
    target: RunFolder
    planner: Planner
    seed: int

    def plan(self) -> tuple[list[Job], list[ComparisonPlan]]:
        """Return jobs and, for a comparison of captions with CLIP-like models, its tables."""
        settings = self.settings
        names = dataset_names(make_config({"dataset": settings.dataset_name}))
        if settings.task != COMPARISON:
            return list(self._jobs(settings.models, names, settings.task or "auto")), []
        seeing = list(self._jobs(settings.models, names, MIXED))
        captioning = list(self._jobs(settings.caption_models, names, CAPTION))
        reading: list[Job] = []
        if captioning:
            search = TextSearch(settings.text_models, settings, {}, self.budget, self.target, self.planner)
        for captions in captioning:
            dataset = DatasetSpec(captions.dataset.name, "text_collection", str(data_folder(captions.output)), "test")
            told = {"captions_by": captions.model.name, "caption_prompt": captions.settings["prompt"]}
            writer = captions.output.parent.name
            reading += search.jobs(dataset, RETRIEVAL, {**RECALL, **told}, promised=True, writer=writer)
        tables = [
            ComparisonPlan(
                name,
                tuple(job.output for job in (*seeing, *reading) if job.dataset.name == name),
                self.target.root / f"{file_name(name)}_retrieval_comparison",
                tuple(settings.recall_k),
            )
            for name in names
        ]
        return [*captioning, *seeing, *reading], tables

    def _jobs(self, models: Sequence[VisionModel], names: Sequence[str], task: str) -> Iterator[Job]:
        settings = self.settings
        for entry, name in product(models, names):
            config = self._config(name)
            options = task_options(config) | {"caption_prompt": entry.prompt, "prompt_role": entry.prompt_role}
            benchmark = self.planner.benchmark(dataset_spec(config, name, config.language[0]), task, options)
            spec = vision_spec(entry, benchmark.task.needs, settings, self.budget)
            output = self._output(entry, name, benchmark, spec)
            if not (settings.skip_existing and output.exists()):  # see `eyechart.plan.plan_jobs`
                self.planner.check_model(spec, benchmark)
            yield benchmark.job(
                spec,
                output,
                encoding=EncodeOptions(settings.batch_size, settings.num_workers),
                on_error=settings.on_error,
                **({} if settings.min_success is None else {"min_success": settings.min_success}),
            )

    def _output(self, entry: VisionModel, name: str, benchmark: PlannedBenchmark, spec: ModelSpec) -> Path:
        def output_in(folder: Path) -> Path:
            return result_path(folder, name, benchmark.task_name, self.settings.language or "en")

        def taken(folder: Path) -> bool:
            return benchmark.task_name == CAPTION and holds_other_captions(
                output_in(folder), way_of(spec, ImageCaptionSettings.restored(benchmark.settings))
            )

        identity = [spec.what, entry.prompt, entry.prompt_role]
        return output_in(self.target.model_folder([entry.model_name], identity, taken))

    def _config(self, name: str) -> Config:
        """Return the `eyechart.config` settings that select the data."""
        settings = self.settings
        root = settings.data_dir.get(name) if isinstance(settings.data_dir, dict) else settings.data_dir
        if not root:  # a webdataset in the cache folder, where EvalScope keeps its own
            folders = (Path(settings.cache_dir) / folder for folder in (name, f"wds_{name}"))
            root = next((str(folder) for folder in folders if is_webdataset(folder)), None)
        language, entry = settings.language or "en", load_catalogue().find(name)
        if not settings.language and entry and entry.languages and entry.own_language("en") is None:
            language = entry.languages[0]
        values: dict[str, Any] = {
            "dataset": [name],
            "split": settings.split,
            "language": [language],
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


class TextSearch:
    """The text models of a config: every encoder searches alone, and with each reranker as a second stage."""

    def __init__(
        self,
        entries: Sequence[TextModel],
        settings: ClipEval | MtebEval,
        encode_kwargs: dict[str, Any],
        budget: Budget,
        target: RunFolder,
        planner: Planner,
    ) -> None:
        self.top_k, self.target, self.planner = settings.top_k, target, planner
        specs = [(entry, text_spec(entry, settings, budget, encode_kwargs)) for entry in entries]
        self.encoders = [
            (spec, encode_options(entry, encode_kwargs)) for entry, spec in specs if not entry.is_cross_encoder
        ]
        """Encoders with their prompts."""
        self.rerankers = [(spec, entry.prompt or "") for entry, spec in specs if entry.is_cross_encoder]
        if not self.encoders:
            raise UsageError(
                "All models are rerankers (is_cross_encoder).",
                advice="Rerankers reorder the results of an encoder: add an encoder.",
            )

    def jobs(
        self,
        dataset: DatasetSpec,
        task: str,
        options: Mapping[str, Any],
        *,
        encoders: Sequence[tuple[ModelSpec, dict[str, Any]]] = (),
        second: bool = True,
        promised: bool = False,
        writer: str = "",
        file_task: str = "",
    ) -> Iterator[Job]:
        """Plan each encoder (by default all), alone and, if ``second``, with each reranker.

        ``options`` are the task's, without those of the models. With ``promised``, an earlier job writes the texts.
        ``writer`` is the model that wrote them, named in results with the models that search them; ``file_task`` the
        task in the names of files, if it differs.
        """
        for encoder, prompts in encoders or self.encoders:
            self.planner.check(encoder, "encoder")
            access = access_of(encoder)
            # A remote encoder serves requests in parallel, so it gets several requests' worth of texts at a time.
            at_once = access.concurrency if "api_base" in encoder.options else 1
            for reranker, told in ((None, ""), *(self.rerankers if second else ())):
                stage = {"reranker": reranker.name, "top_k": self.top_k, "reranker_prompt": told} if reranker else {}
                extra = {"reranker": reranker} if reranker else {}
                benchmark = self.planner.benchmark(
                    dataset, task, {**options, **prompts, **stage}, promised=promised, extra_models=extra
                )
                specs = [encoder, *extra.values()]
                names = [*filter(None, [writer]), *(spec.name for spec in specs)]
                folder = self.target.model_folder(names, [[spec.what for spec in specs], prompts, told])
                yield benchmark.job(
                    encoder,
                    result_path(folder, dataset.name, file_task or task),
                    label=label(names) if len(names) > 1 else "",
                    encoding=EncodeOptions(access.batch_size * at_once),
                )

    def custom_jobs(self, settings: MtebEval, promised: Collection[Path]) -> Iterator[Job]:
        """Plan the custom tasks; ``promised`` are folders that earlier jobs of the same run will write."""
        names = [task.name for task in settings.custom_tasks]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise UsageError("Two custom tasks are named {name!r}.", advice="Use distinct names.", name=twice)
        for task in settings.custom_tasks:
            folder = Path(task.data_path).expanduser()
            expected = folder.resolve() in promised
            mixed = not expected and has_images(folder, task.encoding)
            reader, kind = ("collection", MIXED) if mixed else ("text_collection", RETRIEVAL)
            how = {"encoding": task.encoding} if task.encoding else {}
            options = {**RECALL, **({"candidates": True} if task.name.startswith(RERANKING) else {})}
            for split in task.eval_splits:
                name = task.name if split == "test" else f"{task.name}-{split}"
                dataset = DatasetSpec(name, reader, str(folder), split, limit=settings.limit, options=how)
                yield from self.jobs(dataset, kind, options, promised=expected)

    def mteb_jobs(self, settings: MtebEval) -> Iterator[Job]:
        """Plan MTEB's built-in tasks; rerankers apply to rankings."""
        if not (settings.task_names or settings.task_types or (settings.languages and not settings.custom_tasks)):
            return
        names = settings.task_names or tasks_of_types(settings.task_types, settings.languages)
        for encoder, name in product(self.encoders, names):  # groups the jobs by model
            splits = settings.splits.get(name, []) if isinstance(settings.splits, dict) else settings.splits
            roots = settings.data_dir
            own = roots.get(name) if isinstance(roots, dict) else str(Path(roots or CACHE) / name)
            if not roots and not Path(str(own)).is_dir():
                own = None  # no local data
            chosen = {"languages": settings.languages, "splits": splits, "folder": own, "hub": settings.hub}
            options = {key: value for key, value in chosen.items() if value}
            dataset = DatasetSpec(name, MTEB, name, limit=settings.limit, options=options)
            kind = cast("MtebDataset", self.planner.datasets.open(dataset)).task.metadata.type
            second = kind in WITH_RERANKER
            yield from self.jobs(dataset, MTEB, {}, encoders=[encoder], second=second, file_task=f"{MTEB}_{kind}")
