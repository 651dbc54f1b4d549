"""Text models on texts: every encoder, alone and with every reranker; and MTEB's own tasks."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, Self, cast

from eyechart.api import Budget
from eyechart.compat.evalscope.layout import Layout, label, result_path
from eyechart.compat.evalscope.models import encode_options, text_access, text_spec
from eyechart.compat.evalscope.schema import CustomTask, MtebConfig, MtebEval, Requests, TextModel
from eyechart.datasets.libraries.mteb import MtebDataset, tasks_of_types
from eyechart.datasets.text_collection import has_images
from eyechart.errors import UsageError
from eyechart.models.access import access_of
from eyechart.plan import PlannedBenchmark, Planner
from eyechart.tasks.mteb import WITH_RERANKER
from eyechart.types import DatasetSpec, Job, ModelSpec

RETRIEVAL, MIXED, MTEB = "text_retrieval", "zeroshot_retrieval", "mteb"
MIXED_KS = (1, 5, 10)
CACHE = "cache"
"""Data of MTEB's own tasks that lie here, each in a folder of the task's name, are used without any network."""


@dataclass(frozen=True)
class Texts:
    """A folder of texts to search, or of texts and images."""

    name: str
    """What results call it."""
    folder: Path
    split: str = "test"
    limit: int | None = None
    promised: bool = False
    """An earlier job will write it."""
    mixed: bool = False
    """Some of its documents or queries are images."""
    writer: str = ""
    """Who wrote the texts; results name it together with the models that search them."""
    options: Mapping[str, Any] = field(default_factory=dict)
    encoding: str = ""


@dataclass(frozen=True)
class Chain:
    """An encoder alone, or with a reranker behind it."""

    encoder: ModelSpec
    names: tuple[str, ...]
    options: Mapping[str, Any]
    """For the task: prompts, and the second stage if there is one."""
    identity: object
    """What tells it from another chain of the same names."""


@dataclass(frozen=True)
class TextModels:
    """The text models of a config: encoders with their prompts, and rerankers."""

    encoders: tuple[tuple[ModelSpec, dict[str, Any]], ...]
    rerankers: tuple[tuple[ModelSpec, str], ...]

    @classmethod
    def of(
        cls, entries: Sequence[TextModel], requests: Requests, budget: Budget, encode_kwargs: dict[str, Any]
    ) -> Self:
        """Part encoders from rerankers; a reranker alone cannot search."""
        specs = [(entry, text_spec(entry, text_access(entry, requests, budget, encode_kwargs))) for entry in entries]
        encoders = tuple(
            (spec, encode_options(entry, encode_kwargs)) for entry, spec in specs if not entry.is_cross_encoder
        )
        rerankers = tuple((spec, entry.prompt or "") for entry, spec in specs if entry.is_cross_encoder)
        if not encoders:
            raise UsageError(
                "There are only rerankers (is_cross_encoder).",
                advice="A reranker orders what an encoder has found: put an encoder before it.",
            )
        return cls(encoders, rerankers)

    def chains(self, top_k: int, planner: Planner, *, second: bool = True) -> Iterator[Chain]:
        """Yield every encoder, alone and (if there is something to order anew) with each reranker."""
        for encoder, prompts in self.encoders:
            planner.check(encoder, "encoder")
            for reranker, told in ((None, ""), *(self.rerankers if second else ())):
                specs = [encoder, *([reranker] if reranker is not None else [])]
                stage = {"reranker": reranker, "top_k": top_k, "reranker_prompt": told}
                identity = [[spec.what for spec in specs], prompts, told]
                yield Chain(encoder, tuple(spec.name for spec in specs), {**prompts, **stage}, identity)


def text_jobs(texts: Texts, models: TextModels, top_k: int, layout: Layout, planner: Planner) -> Iterator[Job]:
    """Plan every encoder on a folder, alone and with each reranker; rerankers read texts only."""
    if texts.mixed and models.rerankers:
        raise UsageError(
            f"{texts.folder} holds images, and rerankers read texts only.",
            advice="Remove the reranker from this config.",
        )
    reader, task = ("collection", MIXED) if texts.mixed else ("text_collection", RETRIEVAL)
    how = {"encoding": texts.encoding} if texts.encoding else {}
    dataset = DatasetSpec(texts.name, reader, str(texts.folder), texts.split, limit=texts.limit, options=how)
    for chain in models.chains(top_k, planner):
        options = {**texts.options, **chain.options, "recall_k": MIXED_KS}
        benchmark = planner.benchmark(dataset, task, options, promised=texts.promised)
        names = [*filter(None, [texts.writer]), *chain.names]
        output = result_path(layout.model_folder(names, chain.identity), texts.name, task)
        yield _job(chain.encoder, benchmark, output, label(names) if len(names) > 1 else "")


def tool_jobs(config: MtebConfig, layout: Layout, planner: Planner, promised: Collection[Path]) -> Iterator[Job]:
    """Plan the tool ``MTEB``: custom tasks, then MTEB's own.

    Args:
        config: The settings.
        layout: Where results go.
        planner: Checks data and models.
        promised: Folders that earlier jobs of the same run will write.
    """
    settings = config.eval
    budget = Budget(settings.max_requests, settings.max_total_tokens)
    models = TextModels.of(config.models, settings, budget, settings.encode_kwargs)
    _check_names(settings.custom_tasks)
    for task in settings.custom_tasks:
        folder = Path(task.data_path).expanduser()
        for split in task.eval_splits:
            name = task.name if split == "test" else f"{task.name}-{split}"
            texts = Texts(
                name,
                folder,
                split,
                settings.limit,
                promised=folder.resolve() in promised,
                options={"candidates": True} if task.is_reranking else {},
                encoding=task.encoding,
            )
            if not texts.promised and has_images(folder, task.encoding):
                texts = replace(texts, mixed=True)
            yield from text_jobs(texts, models, settings.top_k, layout, planner)
    if settings.task_names or settings.task_types or (settings.languages and not settings.custom_tasks):
        yield from _mteb_jobs(settings, models, layout, planner)


def _mteb_jobs(settings: MtebEval, models: TextModels, layout: Layout, planner: Planner) -> Iterator[Job]:
    """Plan MTEB's own tasks: every encoder alone and, where there is something to order, with each reranker."""
    names = settings.task_names or tasks_of_types(settings.task_types, settings.languages)
    alone = [replace(models, encoders=(encoder,)) for encoder in models.encoders]  # what one model does, together
    for own, name in product(alone, names):
        dataset = DatasetSpec(name, MTEB, name, limit=settings.limit, options=_mteb_options(settings, name))
        kind = cast("MtebDataset", planner.datasets.open(dataset)).task.metadata.type
        for chain in own.chains(settings.top_k, planner, second=kind in WITH_RERANKER):
            benchmark = planner.benchmark(dataset, MTEB, chain.options)
            output = result_path(layout.model_folder(chain.names, chain.identity), name, f"{MTEB}_{kind}")
            yield _job(chain.encoder, benchmark, output, label(chain.names) if len(chain.names) > 1 else "")


def _mteb_options(settings: MtebEval, name: str) -> dict[str, Any]:
    """Say which part of a task is meant, and where its data are."""
    splits = settings.splits.get(name, []) if isinstance(settings.splits, dict) else settings.splits
    roots = settings.data_dir
    own = roots.get(name) if isinstance(roots, dict) else str(Path(roots or CACHE) / name)
    if not roots and not Path(str(own)).is_dir():
        own = None  # nobody has put the data there by hand
    chosen = {"languages": settings.languages, "splits": splits, "folder": own, "hub": settings.hub}
    return {key: value for key, value in chosen.items() if value}


def _job(encoder: ModelSpec, benchmark: PlannedBenchmark, output: Path, together: str = "") -> Job:
    access = access_of(encoder)
    # A remote encoder is asked several times at once, so it gets several requests' worth of texts at a time.
    at_once = access.concurrency if "api_base" in encoder.options else 1
    return benchmark.job(encoder, output, label=together, batch_size=access.batch_size * at_once)


def _check_names(tasks: list[CustomTask]) -> None:
    names = [task.name for task in tasks]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"Two custom tasks are called {twice!r}.", advice="Give each a name of its own.")
