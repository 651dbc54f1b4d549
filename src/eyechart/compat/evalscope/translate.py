"""Jobs and comparison tables from a config."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, Self, cast

from eyechart.api import Budget
from eyechart.compat.evalscope.models import encode_options, text_spec, vision_spec
from eyechart.compat.evalscope.schema import (
    CAPTION,
    COMPARISON,
    RERANKING,
    ClipConfig,
    ClipEval,
    MtebConfig,
    MtebEval,
    Requests,
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
MIXED_KS = (1, 5, 10)
CACHE = "cache"
"""Data of MTEB's built-in tasks in subfolders of this folder are used without network access."""


@dataclass(frozen=True)
class Translation:
    """Jobs and tables of a config."""

    jobs: tuple[Job, ...]
    skip_existing: bool
    dry_run: bool
    comparisons: tuple[ComparisonPlan, ...] = ()


@dataclass
class Translator:
    """Turns the configs of a run into jobs, rejecting everything invalid before any work."""

    planner: Planner = field(default_factory=Planner)
    jobs: list[Job] = field(default_factory=list)
    """Jobs of all configs so far."""

    def translate(self, config: TaskConfig, target: RunFolder) -> Translation:
        """Return the jobs of one config."""
        inner = config.eval_config
        if isinstance(inner, ClipConfig):
            found = _ClipTranslation(inner.eval, target, self.planner, config.seed).translate()
        else:
            settings = inner.eval
            skip = settings.skip_existing or not settings.overwrite_results
            promised = {data_folder(job.output).resolve() for job in self.jobs if job.task == CAPTION}
            jobs = tuple(tool_jobs(inner, target, self.planner, promised))
            found = Translation(jobs, skip, settings.dry_run)
        self.jobs += found.jobs
        check_outputs(list({(job.output, job.digest): job for job in self.jobs}.values()))
        return found


@dataclass
class _ClipTranslation:
    settings: ClipEval
    target: RunFolder
    planner: Planner
    seed: int

    def __post_init__(self) -> None:
        self.budget = Budget(self.settings.max_requests, self.settings.max_total_tokens)
        self.names = dataset_names(make_config({"dataset": self.settings.dataset_name}))

    def translate(self) -> Translation:
        settings = self.settings
        if settings.task != COMPARISON:
            return self._translation(self._jobs(settings.models, settings.task or "auto"))
        # Captions, CLIP-like models on the images, text models on the captions, and the table of all.
        seeing = list(self._jobs(settings.models, MIXED))
        captioning = list(self._jobs(settings.caption_models, CAPTION))
        reading = [job for captions in captioning for job in self._search(captions)]
        tables = (
            ComparisonPlan(
                name,
                tuple(job.output for job in (*seeing, *reading) if job.dataset.name == name),
                self.target.root / f"{file_name(name)}_retrieval_comparison",
                tuple(settings.recall_k),
            )
            for name in self.names
        )
        return self._translation((*captioning, *seeing, *reading), tables)

    def _translation(self, jobs: Iterable[Job], comparisons: Iterable[ComparisonPlan] = ()) -> Translation:
        return Translation(tuple(jobs), self.settings.skip_existing, self.settings.dry_run, tuple(comparisons))

    def _jobs(self, models: Sequence[VisionModel], task: str) -> Iterator[Job]:
        settings = self.settings
        for entry, name in product(models, self.names):
            config = self._config(name)
            options = task_options(config) | {"caption_prompt": entry.prompt, "prompt_role": entry.prompt_role}
            benchmark = self.planner.benchmark(dataset_spec(config, name, config.language[0]), task, options)
            spec = vision_spec(entry, benchmark.task.needs, settings, self.budget)
            output = self._output(entry, name, benchmark, spec)
            if not (settings.skip_existing and output.exists()):  # see `eyechart.plan.plan_jobs`
                self.planner.check_model(spec, benchmark.task)
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

    def _search(self, captions: Job) -> Iterator[Job]:
        texts = Texts(
            captions.dataset.name,
            data_folder(captions.output),
            promised=True,
            writer=captions.output.parent.name,
            options={"captions_by": captions.model.name, "caption_prompt": captions.settings["prompt"]},
        )
        models = TextModels.of(self.settings.text_models, self.settings, self.budget, {})
        yield from text_jobs(texts, models, self.settings.top_k, self.target, self.planner)

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


@dataclass(frozen=True)
class Texts:
    """A folder of texts, or of texts and images, to search."""

    name: str
    """Name in results."""
    folder: Path
    split: str = "test"
    limit: int | None = None
    promised: bool = False
    """To be written by an earlier job."""
    mixed: bool = False
    """Whether some documents or queries are images."""
    writer: str = ""
    """The model that wrote the texts, named in results with the models that search them."""
    options: Mapping[str, Any] = field(default_factory=dict)
    encoding: str = ""


@dataclass(frozen=True)
class Chain:
    """An encoder, optionally followed by a reranker."""

    encoder: ModelSpec
    names: tuple[str, ...]
    options: Mapping[str, Any]
    """Task options: prompts, and the second stage if there is one."""
    identity: object
    """Distinguishes chains of the same names."""
    extra_models: Mapping[str, ModelSpec]
    """The reranker, if there is one."""


@dataclass(frozen=True)
class TextModels:
    """The text models of a config: encoders with their prompts, and rerankers."""

    encoders: tuple[tuple[ModelSpec, dict[str, Any]], ...]
    rerankers: tuple[tuple[ModelSpec, str], ...]

    @classmethod
    def of(
        cls, entries: Sequence[TextModel], requests: Requests, budget: Budget, encode_kwargs: dict[str, Any]
    ) -> Self:
        """Separate encoders and rerankers; a reranker alone cannot search."""
        specs = [(entry, text_spec(entry, requests, budget, encode_kwargs)) for entry in entries]
        encoders = tuple(
            (spec, encode_options(entry, encode_kwargs)) for entry, spec in specs if not entry.is_cross_encoder
        )
        rerankers = tuple((spec, entry.prompt or "") for entry, spec in specs if entry.is_cross_encoder)
        if not encoders:
            raise UsageError(
                "All models are rerankers (is_cross_encoder).",
                advice="Rerankers reorder the results of an encoder: add an encoder.",
            )
        return cls(encoders, rerankers)

    def chains(self, top_k: int, planner: Planner, *, second: bool = True) -> Iterator[Chain]:
        """Yield every encoder, alone and (if ``second``) with each reranker."""
        for encoder, prompts in self.encoders:
            planner.check(encoder, "encoder")
            for reranker, told in ((None, ""), *(self.rerankers if second else ())):
                specs = [encoder, *([reranker] if reranker is not None else [])]
                stage = {"reranker": reranker.name, "top_k": top_k, "reranker_prompt": told} if reranker else {}
                identity = [[spec.what for spec in specs], prompts, told]
                extra = {"reranker": reranker} if reranker else {}
                yield Chain(encoder, tuple(spec.name for spec in specs), {**prompts, **stage}, identity, extra)


def text_jobs(texts: Texts, models: TextModels, top_k: int, target: RunFolder, planner: Planner) -> Iterator[Job]:
    """Plan every encoder on a folder, alone and with each reranker; rerankers only accept text."""
    if texts.mixed and models.rerankers:
        raise UsageError(
            "{folder} contains images, but rerankers only accept text.",
            advice="Remove the reranker from this config.",
            folder=texts.folder,
        )
    reader, task = ("collection", MIXED) if texts.mixed else ("text_collection", RETRIEVAL)
    how = {"encoding": texts.encoding} if texts.encoding else {}
    dataset = DatasetSpec(texts.name, reader, str(texts.folder), texts.split, limit=texts.limit, options=how)
    for chain in models.chains(top_k, planner):
        options = {**texts.options, **chain.options, "recall_k": list(MIXED_KS)}
        benchmark = planner.benchmark(dataset, task, options, promised=texts.promised, extra_models=chain.extra_models)
        yield _job(chain, benchmark, target, texts.name, task, texts.writer)


def tool_jobs(config: MtebConfig, target: RunFolder, planner: Planner, promised: Collection[Path]) -> Iterator[Job]:
    """Plan the tool ``MTEB``: custom tasks, then built-in ones.

    Args:
        config: The settings.
        target: Output folder.
        planner: Checks data and models.
        promised: Folders that earlier jobs of the same run will write.
    """
    settings = config.eval
    budget = Budget(settings.max_requests, settings.max_total_tokens)
    models = TextModels.of(config.models, settings, budget, settings.encode_kwargs)
    names = [task.name for task in settings.custom_tasks]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError("Two custom tasks are named {name!r}.", advice="Use distinct names.", name=twice)
    for task in settings.custom_tasks:
        folder = Path(task.data_path).expanduser()
        for split in task.eval_splits:
            name = task.name if split == "test" else f"{task.name}-{split}"
            expected = folder.resolve() in promised
            texts = Texts(
                name,
                folder,
                split,
                settings.limit,
                promised=expected,
                mixed=not expected and has_images(folder, task.encoding),
                options={"candidates": True} if task.name.startswith(RERANKING) else {},
                encoding=task.encoding,
            )
            yield from text_jobs(texts, models, settings.top_k, target, planner)
    if settings.task_names or settings.task_types or (settings.languages and not settings.custom_tasks):
        yield from _mteb_jobs(settings, models, target, planner)


def _mteb_jobs(settings: MtebEval, models: TextModels, target: RunFolder, planner: Planner) -> Iterator[Job]:
    """Plan MTEB's built-in tasks: every encoder alone and, for rankings, with each reranker."""
    names = settings.task_names or tasks_of_types(settings.task_types, settings.languages)
    alone = [replace(models, encoders=(encoder,)) for encoder in models.encoders]  # groups the jobs by model
    for own, name in product(alone, names):
        dataset = DatasetSpec(name, MTEB, name, limit=settings.limit, options=_mteb_options(settings, name))
        kind = cast("MtebDataset", planner.datasets.open(dataset)).task.metadata.type
        for chain in own.chains(settings.top_k, planner, second=kind in WITH_RERANKER):
            benchmark = planner.benchmark(dataset, MTEB, chain.options, extra_models=chain.extra_models)
            yield _job(chain, benchmark, target, name, f"{MTEB}_{kind}")


def _mteb_options(settings: MtebEval, name: str) -> dict[str, Any]:
    """Return the options that select splits, languages and data of a task."""
    splits = settings.splits.get(name, []) if isinstance(settings.splits, dict) else settings.splits
    roots = settings.data_dir
    own = roots.get(name) if isinstance(roots, dict) else str(Path(roots or CACHE) / name)
    if not roots and not Path(str(own)).is_dir():
        own = None  # no local data
    chosen = {"languages": settings.languages, "splits": splits, "folder": own, "hub": settings.hub}
    return {key: value for key, value in chosen.items() if value}


def _job(
    chain: Chain, benchmark: PlannedBenchmark, target: RunFolder, dataset: str, task: str, writer: str = ""
) -> Job:
    names = [*filter(None, [writer]), *chain.names]
    output = result_path(target.model_folder(names, chain.identity), dataset, task)
    access = access_of(chain.encoder)
    # A remote encoder serves requests in parallel, so it gets several requests' worth of texts at a time.
    at_once = access.concurrency if "api_base" in chain.encoder.options else 1
    encoding = EncodeOptions(access.batch_size * at_once)
    return benchmark.job(chain.encoder, output, label=label(names) if len(names) > 1 else "", encoding=encoding)
