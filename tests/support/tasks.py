"""Run a task on a dataset folder with any encoder, without the command line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from eyechart.datasets.registry import open_dataset
from eyechart.inference.embeddings import CachedEncoder
from eyechart.manifest import read_manifest
from eyechart.models.lazy_model import LazyModel
from eyechart.store.vector_store import EmbeddingStore
from eyechart.tasks.base import TaskContext
from eyechart.tasks.registry import load_task
from eyechart.types import DatasetSpec, Outcome
from support.encoders import SmallEncoder, lazy


def make_context(
    root: Path, encoder: SmallEncoder | LazyModel, store: Path, *, reader: str = "wds", on_error="fail"
) -> TaskContext:
    """Open a folder: its test split is scored, its other splits can be learnt from."""
    spec = DatasetSpec(f"{reader}/x", reader, str(root))

    def open_split(split: str):
        return read_manifest(open_dataset(replace(spec, split=split)), on_error=on_error)

    model = encoder if isinstance(encoder, LazyModel) else lazy(encoder)
    embeddings = CachedEncoder(model, EmbeddingStore(store), on_error=on_error)
    return TaskContext(open_split("test"), embeddings, open_split, output=store / "result.json")


def run_task(name: str, context: TaskContext, **options) -> Outcome:
    """Plan, predict and score as a run does."""
    task = load_task(name)
    settings = task.Settings.restored(task.recorded(task.Settings.picked(options)))
    task.check(context.info, settings)
    return task.score(task.predict(context, settings), settings)


def values(outcome: Outcome) -> dict[str, float]:
    return {name: metric.value for name, metric in outcome.metrics.items()}
