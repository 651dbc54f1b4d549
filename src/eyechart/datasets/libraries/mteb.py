"""Tasks of the ``mteb`` library: it reads their data when it scores them, so they have no samples here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from eyechart.datasets.rows import describe
from eyechart.errors import UsageError, import_extra, unknown_name
from eyechart.types import DatasetInfo, DatasetSpec, Shard, digest_json


@dataclass(frozen=True)
class MtebDataset:
    """A task of MTEB that is not read yet."""

    info: DatasetInfo
    task: Any

    def shards(self) -> Sequence[Shard]:
        """Return none: the library reads the data."""
        return ()

    def signature(self) -> str:
        """Name the library's version and the revision of the data, which it pins."""
        metadata = self.task.metadata
        return digest_json([version("mteb"), metadata.name, metadata.dataset, self.task.hf_subsets])


def open_mteb(spec: DatasetSpec) -> MtebDataset:
    """Find the task whose name is the ``root``; ``options``: languages, splits."""
    if spec.limit is not None:
        raise UsageError(
            "A limit does not apply to MTEB's own tasks: a part of one is another task.",
            advice="Remove it, or use a folder of texts.",
        )
    mteb = import_extra("mteb", "mteb")
    languages, splits = spec.options.get("languages") or None, spec.options.get("splits") or None
    try:
        task = mteb.get_task(spec.root, languages=languages, eval_splits=splits)
    except KeyError as error:
        # To list all of them takes seconds, so only whoever mistypes waits for it.
        raise unknown_name("MTEB task", spec.root, [task.metadata.name for task in mteb.get_tasks()]) from error
    return MtebDataset(describe(spec, "external", "mteb"), task)


def tasks_of_types(types: Sequence[str], languages: Sequence[str]) -> list[str]:
    """Return the names of MTEB's tasks of some types."""
    found = import_extra("mteb", "mteb").get_tasks(task_types=list(types), languages=list(languages) or None)
    return [task.metadata.name for task in found]
