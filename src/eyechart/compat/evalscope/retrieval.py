"""The tool ``MTEB``: text models and tasks of a config to planned steps."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from eyechart.api import Budget
from eyechart.compat.evalscope.context import Step
from eyechart.compat.evalscope.layout import Layout, label, result_path
from eyechart.compat.evalscope.mteb_tasks import mteb_steps
from eyechart.compat.evalscope.schema import CustomTask, MtebConfig
from eyechart.compat.evalscope.text_models import PlannedText, plan_text
from eyechart.compat.evalscope.texts import Stage, TextStep
from eyechart.errors import DataError, UsageError
from eyechart.tasks.text_retrieval import NAME


def retrieval_steps(config: MtebConfig, layout: Layout, promised: Collection[Path]) -> list[Step]:
    """Plan every encoder on every custom task, and every reranker behind every encoder.

    Args:
        config: The settings.
        layout: Where results go.
        promised: Folders that earlier steps of the same run will write.
    """
    settings = config.eval
    budget = Budget(settings.max_requests, settings.max_total_tokens)
    models = [plan_text(entry, settings, budget, settings.encode_kwargs) for entry in config.models]
    encoders, rerankers = split_models(models)
    _check_names(settings.custom_tasks)
    steps: list[Step] = []
    for task in settings.custom_tasks:
        folder = Path(task.data_path).expanduser()
        _check_folder(folder, promised)
        for split in task.eval_splits:
            name = task.name if split == "test" else f"{task.name}-{split}"
            steps += [
                TextStep(
                    name=name,
                    folder=folder,
                    split=split,
                    encoder=encoder,
                    rerankers=rerankers,
                    stages=plan_stages(layout, name, encoder, rerankers),
                    limit=settings.limit,
                    top_k=settings.top_k,
                    skip_existing=settings.skip_existing or not settings.overwrite_results,
                    dry_run=settings.dry_run,
                )
                for encoder in encoders
            ]
    if settings.task_names or settings.task_types:
        if rerankers:
            raise UsageError(
                "Rerankers work on custom_tasks only.", advice="Remove them, or MTEB's own tasks, from this config."
            )
        steps += mteb_steps(settings, encoders, layout)
    return steps


def split_models(models: list[PlannedText]) -> tuple[tuple[PlannedText, ...], tuple[PlannedText, ...]]:
    """Part encoders from rerankers; a reranker alone cannot search."""
    encoders = tuple(model for model in models if not model.entry.is_cross_encoder)
    rerankers = tuple(model for model in models if model.entry.is_cross_encoder)
    if not encoders:
        raise UsageError(
            "There are only rerankers (is_cross_encoder).",
            advice="A reranker orders what an encoder has found: put an encoder before it.",
        )
    return encoders, rerankers


def plan_stages(
    layout: Layout, name: str, encoder: PlannedText, rerankers: tuple[PlannedText, ...], before: tuple[str, ...] = ()
) -> tuple[Stage, ...]:
    """Name the results of an encoder alone and with each reranker, and their files.

    ``before`` names models that did their part earlier: whoever wrote the texts.
    """
    stages = []
    for chain in ((encoder,), *((encoder, reranker) for reranker in rerankers)):
        names = [*before, *(model.name for model in chain)]
        folder = layout.model_folder(names, [[model.spec, model.prompts, model.entry.prompt] for model in chain])
        stages.append(Stage(label(names), result_path(folder, name, NAME)))
    return tuple(stages)


def _check_names(tasks: list[CustomTask]) -> None:
    names = [task.name for task in tasks]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"Two custom tasks are called {twice!r}.", advice="Give each a name of its own.")


def _check_folder(folder: Path, promised: Collection[Path]) -> None:
    if not folder.is_dir() and folder.resolve() not in {path.resolve() for path in promised}:
        raise DataError(f"There is no folder {folder}.", advice="Check data_path (or dataset_path).")
