"""Tasks of the ``mteb`` library: it reads their data when it scores them, so they have no samples here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from eyechart.datasets.layout import no_such_split
from eyechart.datasets.libraries import mteb_data
from eyechart.datasets.rows import describe
from eyechart.errors import DataError, import_extra, unknown_name
from eyechart.io.progress import Progress
from eyechart.types import DatasetInfo, DatasetSpec, Notice, Shard, digest_json

MODELSCOPE = "modelscope"


@dataclass
class MtebDataset:
    """A task of MTEB that is not read yet."""

    info: DatasetInfo
    task: Any
    limit: int | None = None
    """Use only the first queries, or rows, of each split."""
    options: Mapping[str, Any] = field(default_factory=dict)
    notices: tuple[Notice, ...] = ()

    @property
    def folder(self) -> Path | None:
        """Return where its data are on this machine, if that was said."""
        given = self.options.get("folder")
        return Path(given).expanduser() if given else None

    def shards(self) -> Sequence[Shard]:
        """Return none: the library reads the data."""
        return ()

    def signature(self) -> str:
        """Name the library's version and the data: by the revision that it pins, or by what is in the folder."""
        metadata = self.task.metadata
        content = mteb_data.content_of(self.folder) if self.folder else []
        named = [version("mteb"), metadata.name, metadata.dataset, self.task.hf_subsets]
        hub = self.options.get("hub")
        return digest_json([*named, content, hub] if content or hub else named)

    def fetch(self, progress: Progress) -> None:
        """Bring the data here from ModelScope, where they are to come from; else the library fetches them itself."""
        path = self.task.metadata.dataset["path"]
        if self.options.get("hub") != MODELSCOPE or self.folder or Path(path).exists():
            return
        try:
            folder = mteb_data.from_modelscope(path, self.options, progress)
        except DataError as error:
            text = f"ModelScope does not have the data ({error.message}); they come from Hugging Face."
            self.notices = (Notice("other_hub", 1, text),)
            return
        self.options = {**self.options, "folder": str(folder)}

    def loaded(self) -> Any:
        """Return a task of its own with its data, cut to the limit; the library changes tasks that it evaluates."""
        task = copy(self.task)
        if self.folder is not None:
            mteb_data.load_folder(task, self.folder)
        else:
            task.load_data()
        if self.limit is not None:
            mteb_data.cut(task, self.limit)
        return task


def open_mteb(spec: DatasetSpec) -> MtebDataset:
    """Find the task whose name is the ``root``; ``options``: languages, splits, folder, hub."""
    mteb = import_extra("mteb", "mteb")
    languages, splits = spec.options.get("languages") or None, spec.options.get("splits") or None
    try:
        task = mteb.get_task(spec.root, languages=languages)
    except KeyError as error:
        # To list all of them takes seconds, so only whoever mistypes waits for it.
        raise unknown_name("MTEB task", spec.root, [task.metadata.name for task in mteb.get_tasks()]) from error
    for split in splits or ():
        if split not in task.metadata.eval_splits:
            raise no_such_split(spec.root, split, list(task.metadata.eval_splits))
    if splits:
        task = mteb.get_task(spec.root, languages=languages, eval_splits=list(splits))
    folder = spec.options.get("folder")
    if folder and not Path(folder).expanduser().is_dir():
        raise DataError(
            f"There is no folder {folder} with the data of {spec.root}.",
            advice="--dataset_root holds one folder for each task, named as the task is.",
        )
    options = {key: spec.options[key] for key in ("folder", "hub", "cache_dir", "offline") if spec.options.get(key)}
    return MtebDataset(describe(spec, "external", "mteb"), task, spec.limit, options)


def tasks_of_types(types: Sequence[str], languages: Sequence[str]) -> list[str]:
    """Return the names of MTEB's tasks of some types, in some languages."""
    found = import_extra("mteb", "mteb").get_tasks(task_types=list(types) or None, languages=list(languages) or None)
    return [task.metadata.name for task in found]
