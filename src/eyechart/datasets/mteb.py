"""Tasks of the `mteb` library as datasets, and their data in folders."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from eyechart.benchmarks import MTEB_COLLECTIONS
from eyechart.datasets.in_memory_rows import ObjectDataset, ObjectRow, ObjectRows, image_of
from eyechart.datasets.locations import no_such_split
from eyechart.datasets.remote.hubs import HubFiles
from eyechart.datasets.remote.remote_sources import open_files
from eyechart.datasets.row_dataset import describe, located
from eyechart.datasets.text_collection import CORPUS, read_collection
from eyechart.errors import (
    DataError,
    EyechartError,
    UnknownNameError,
    UsageError,
    first_line,
    import_extra,
    unknown_name,
)
from eyechart.io.digests import file_digest
from eyechart.io.files import cache_root, cached_snapshot
from eyechart.io.progress import Progress
from eyechart.messages import UserMessage
from eyechart.types import DatasetInfo, DatasetSpec, Input, Notice, Shard, digest_json

QRELS = "-qrels"
SCOPE_NAMES = {
    "MMarcoReranking": "Mmarco-reranking",
    "CMedQAv1": "CMedQAv1-reranking",
    "CMedQAv2": "CMedQAv2-reranking",
    "TNews": "TNews-classification",
    "IFlyTek": "IFlyTek-classification",
    "Ocnli": "OCNLI",
}
"""Repositories of C-MTEB whose names differ from MTEB's."""


def mteb_content(folder: Path) -> list[list[str]]:
    """List names and digests of the files in a folder and in its relevance folder."""
    return [
        [str(path.relative_to(place)), file_digest(path).hex()]
        for place in (folder, _qrels_of(folder))
        for path in sorted(place.rglob("*"))
        if path.is_file()
    ]


@contextmanager
def _cache_of(folder: Path) -> Iterator[None]:
    """Key the cache of the library ``datasets`` by the content of a folder.

    Its default key is the folder's name and README, so different data of the same name would be mixed up.
    """
    from datasets import config

    before = config.HF_DATASETS_CACHE
    config.HF_DATASETS_CACHE = cache_root() / "mteb" / digest_json(mteb_content(folder))
    try:
        yield
    finally:
        config.HF_DATASETS_CACHE = before


@contextmanager
def without_progress_bars() -> Iterator[None]:
    """Hide the progress bars of the library ``datasets``, and scikit-learn's warnings of classes never predicted."""
    import datasets

    hidden = datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="sklearn", message=".* is ill-defined")
            yield
    finally:
        if not hidden:
            datasets.enable_progress_bars()


def _load_folder(task: Any, folder: Path) -> None:
    from mteb.abstasks import AbsTaskRetrieval

    retrieves = isinstance(task, AbsTaskRetrieval)
    readme = folder / "README.md"
    has_configs = readme.is_file() and "\nconfigs:" in readme.read_text("utf-8", "replace")
    if retrieves and (folder / CORPUS).is_file() and not has_configs:
        _load_collection(task, folder)
    elif retrieves and _qrels_of(folder).is_dir():
        with _cache_of(folder):
            _load_parts(task, folder)
    else:
        # The library also reads local folders, given in place of the repository's name.
        source = {**task.metadata.dataset, "path": str(folder.resolve())}
        task.metadata = task.metadata.model_copy(update={"dataset": source})
        try:
            with _cache_of(folder):
                task.load_data()
        except EyechartError:
            raise
        except Exception as error:  # every task has its own loader
            raise DataError(
                "{folder} does not contain the data of {name} ({reason}).",
                advice="It must be a downloaded repository of MTEB, or contain one file per split.",
                folder=folder,
                name=task.metadata.name,
                reason=first_line(error.__cause__ or error),  # such as the damage of a Parquet file
            ) from error
        missing = set() if retrieves or task.metadata.is_multilingual else {*task.eval_splits} - {*task.dataset}
        if missing:
            raise no_such_split(str(folder), min(missing), sorted(task.dataset))
    task.data_loaded = True


def _load_collection(task: Any, folder: Path) -> None:
    """Load a folder of `eyechart.datasets.text_collection`."""
    from datasets import Dataset

    task.dataset = getattr(task, "dataset", None) or {"default": {}}
    for split in task.eval_splits:
        collection = read_collection(folder, split)
        judged = [query for query in collection.queries if collection.relevance.get(query.id)]
        task.dataset["default"][split] = {
            "corpus": Dataset.from_list([{"id": item.id, "text": item.text} for item in collection.documents]),
            "queries": Dataset.from_list([{"id": query.id, "text": query.text} for query in judged]),
            "relevant_docs": {
                query: {name: int(gain) for name, gain in row.items()} for query, row in collection.relevance.items()
            },
            "top_ranked": {query: list(names) for query, names in collection.candidates.items()} or None,
        }


def _limit(task: Any, limit: int) -> None:
    """Keep the first queries of each split and the whole corpus; for other tasks, the first evaluated rows."""
    from mteb.abstasks import AbsTaskRetrieval

    if isinstance(task, AbsTaskRetrieval):  # has queries and documents, which includes MTEB's reranking
        task.convert_v1_dataset_format_to_v2(num_proc=None)
        for splits in task.dataset.values():
            for data in splits.values():
                judged = data["relevant_docs"]
                kept = [i for i, name in enumerate(data["queries"]["id"]) if judged.get(name)][:limit]
                data["queries"] = data["queries"].select(kept)
                names = set(data["queries"]["id"])
                data["relevant_docs"] = {name: row for name, row in judged.items() if name in names}
        return
    subsets = [task.dataset[name] for name in task.hf_subsets] if task.metadata.is_multilingual else [task.dataset]
    for subset in subsets:
        for split in task.eval_splits:
            subset[split] = subset[split].select(range(min(limit, len(subset[split]))))


def _qrels_of(folder: Path) -> Path:
    """Return the separate relevance folder, which is next to the data folder."""
    name, mark, revision = folder.name.partition("--master")
    return folder.with_name(f"{name}{QRELS}{mark}{revision}")


def _mirror(repository: str, options: Mapping[str, Any], progress: Progress) -> Path:
    files = open_files(f"https://modelscope.cn/datasets/{repository}/tree/master", options)
    files.exists()
    if isinstance(files, HubFiles) and not files.offline:
        for name in files.tree:
            files.fetch(name, progress)
    return files.folder


def _load_parts(task: Any, folder: Path) -> None:
    """Load C-MTEB's format: corpus and queries are two splits of one repository, relevance is another repository."""
    from datasets import Dataset, load_dataset

    texts = load_dataset(str(folder.resolve()))
    qrels = load_dataset(str(_qrels_of(folder).resolve()))
    task.dataset = {"default": {}}
    for split in task.eval_splits:
        if split not in qrels:
            raise no_such_split(str(folder), split, sorted(qrels))
        relevance: dict[str, dict[str, int]] = {}
        for row in qrels[split]:
            relevance.setdefault(str(row["qid"]), {})[str(row["pid"])] = int(row.get("score", 1))
        corpus, queries = (
            Dataset.from_list([{"id": str(row.get("id", row.get("_id"))), "text": row["text"]} for row in texts[part]])
            for part in ("corpus", "queries")
        )
        queries = queries.select([i for i, name in enumerate(queries["id"]) if name in relevance])
        parts = {"corpus": corpus, "queries": queries, "relevant_docs": relevance, "top_ranked": None}
        task.dataset["default"][split] = parts


MODELSCOPE = "modelscope"


@dataclass
class MtebDataset:
    """An MTEB task whose data are not loaded yet."""

    info: DatasetInfo
    task: Any
    limit: int | None = None
    """Use only the first queries, or rows, of each split."""
    options: Mapping[str, Any] = field(default_factory=dict)
    notices: tuple[Notice, ...] = ()

    @property
    def folder(self) -> Path | None:
        """The local folder of its data, if set."""
        given = self.options.get("folder")
        return Path(given).expanduser() if given else None

    def shards(self) -> Sequence[Shard]:
        """Return no shards: the library reads the data."""
        return ()

    def signature(self) -> str:
        """Identify the library version and the data: by the pinned revision, or by the content of the folder."""
        metadata = self.task.metadata
        content = mteb_content(self.folder) if self.folder else []
        named = [version("mteb"), metadata.name, metadata.dataset, self.task.hf_subsets]
        hub = self.options.get("hub")
        return digest_json([*named, content, hub] if content or hub else named)

    def fetch(self, progress: Progress) -> None:
        """Download the data from ModelScope if that hub is selected; otherwise the library downloads them itself."""
        path = self.task.metadata.dataset["path"]
        if self.options.get("hub") != MODELSCOPE or self.folder or Path(path).exists():
            return
        owner, _, name = path.partition("/")
        repository = f"C-MTEB/{SCOPE_NAMES.get(name, name)}" if owner == "mteb" else path
        try:
            folder = _mirror(repository, self.options, progress)
            if any(folder.rglob("corpus*")):
                _mirror(repository + QRELS, self.options, progress)
        except DataError as error:
            text = UserMessage(
                "The data are not available on ModelScope ({reason}): using Hugging Face.", reason=error.message
            )
            self.notices = (Notice("other_hub", 1, text),)
            return
        self.options = {**self.options, "folder": str(folder)}

    def loaded(self) -> Any:
        """Return a copy of the task with its data, cut to the limit; the library modifies tasks that it evaluates."""
        task = copy(self.task)
        if task.is_aggregate:
            loaded = [part.loaded() for part in self.parts()]
            for part in loaded:
                part.filter_eval_splits(task.metadata.eval_splits)
            task.metadata = task.metadata.model_copy(update={"tasks": loaded})
            task.tasks = loaded
            return task
        if self.folder is not None:
            _load_folder(task, self.folder)
        else:
            task.load_data()
        if self.limit is not None:
            _limit(task, self.limit)
        if "image" in task.metadata.modalities:
            if hasattr(task, "convert_v1_dataset_format_to_v2"):
                task.convert_v1_dataset_format_to_v2(num_proc=None)
            task.dataset = _undecoded(task.dataset)
        return task

    def parts(self) -> list[MtebDataset]:
        """Return the tasks of an aggregate, or itself."""
        if not self.task.is_aggregate:
            return [self]
        return [replace(self, task=one, options=_with_folder(one, self.options)) for one in self.task.metadata.tasks]

    def size(self) -> int | None:
        """Return the number of samples, queries and documents together, as MTEB publishes it; None if it does not."""
        splits, found = self.task.metadata.eval_splits, 0
        for part in self.parts():
            known = part.task.metadata.descriptive_stats or {}
            for split in (split for split in part.task.eval_splits if split in splits):
                by_subset = known.get(split, {}).get("hf_subset_descriptive_stats")
                counted = [by_subset[name] for name in part.task.hf_subsets] if by_subset else [known.get(split, {})]
                if any("num_samples" not in one for one in counted):
                    return None
                found += sum(one["num_samples"] for one in counted)
        return found

    def missing(self) -> list[str]:
        """List the repositories that the library would download."""
        paths = [part.task.metadata.dataset["path"] for part in self.parts() if part.folder is None]
        return [path for path in paths if not Path(path).exists() and cached_snapshot("datasets", path) is None]


def _undecoded(data: Any) -> Any:
    """Return datasets whose image columns contain files instead of decoded images."""
    from datasets import Dataset, Image

    if isinstance(data, Dataset):
        for name, feature in data.features.items():
            if isinstance(feature, Image):
                data = data.cast_column(name, Image(decode=False))
        return data
    if not isinstance(data, dict):
        return data
    return type(data)(
        {key: part if key in ("relevant_docs", "top_ranked") else _undecoded(part) for key, part in data.items()}
    )


def image_column(info: DatasetInfo, rows: Any) -> ObjectDataset:
    """Return the images of a dataset of the library as samples; rows without an image are skipped."""

    def images() -> Iterator[ObjectRow]:
        for position in range(len(rows)):
            if (image := rows[position]["image"]) is not None:
                with located(where := f"{info.name}[{position}]"):  # rows before it may have no image
                    ref = image_of(image, where)
                yield ObjectRow(ref, None, id=str(position))

    return ObjectDataset(info, ObjectRows("images", images), None)


def _with_folder(task: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """Add the local folder of a task's data, if there is one: named after the task or after its repository."""
    root = options.get("data_root")
    path = str(task.metadata.dataset.get("path", ""))
    names = [task.metadata.name, *([path] if path.count("/") == 1 else [])] if root else []
    found = next((folder for name in names if (folder := Path(str(root)).expanduser() / name).is_dir()), None)
    return {**options, **({"folder": str(found)} if found else {})}


def open_mteb(spec: DatasetSpec) -> MtebDataset:
    """Open the task named by ``root``; ``options``: languages, splits, folder, hub."""
    mteb = import_extra("mteb", "mteb")
    languages, splits = spec.options.get("languages") or None, spec.options.get("splits") or None
    try:
        task = mteb.get_task(spec.root, languages=languages)
    except KeyError as error:
        # Listing all tasks takes seconds, so it is done for unknown names only.
        advice = "`eyechart info mieb-multilingual` lists tasks with images."
        names = [task.metadata.name for task in mteb.get_tasks()]
        raise unknown_name("MTEB task", spec.root, names, advice=advice) from error
    for split in splits or ():
        if split not in task.metadata.eval_splits:
            raise no_such_split(spec.root, split, list(task.metadata.eval_splits))
    if splits:
        task = mteb.get_task(spec.root, languages=languages, eval_splits=list(splits))
    other = sorted(set(task.metadata.modalities) - {"image", "text"})
    if other:
        raise UsageError(
            "The MTEB task {root} has {other} inputs.",
            advice="Tasks with images and texts are supported.",
            root=spec.root,
            other=" and ".join(other),
        )
    folder = spec.options.get("folder")
    if folder and not Path(folder).expanduser().is_dir():
        raise DataError(
            "The data folder of {root}, {folder}, does not exist.",
            advice="{--dataset_root} must contain one folder per task, named after the task.",
            folder=folder,
            root=spec.root,
        )
    known = ("folder", "data_root", "hub", "cache_dir", "offline")
    options = {key: spec.options[key] for key in known if spec.options.get(key)}
    inputs: tuple[Input, ...] = tuple(name for name in ("image", "text") if name in task.metadata.modalities)
    info = replace(describe(spec, "external", "mteb"), inputs=inputs)
    if "image" in task.metadata.modalities:
        info = replace(info, measures=task.metadata.type, collections=collections_of(task.metadata.name))
    return MtebDataset(info, task, spec.limit, options if folder else _with_folder(task, options))


def collection_tasks(name: str) -> list[Any]:
    """Return the tasks of a collection as the installed library defines it: those whose data are public."""
    import_extra("mteb", "mteb")
    from mteb.benchmarks.benchmarks import benchmarks

    for found in vars(benchmarks).values():
        if name in (getattr(found, "name", ""), *(getattr(found, "aliases", None) or ())):
            return [task for task in found.tasks if task.metadata.is_public]
    raise UnknownNameError(
        "The installed mteb has no collection {name}.", advice="Install a newer version of mteb.", name=name
    )


def collections_of(task: str) -> dict[str, int]:
    """Return the collections that a task is part of, and their sizes."""
    found = {name: [one.metadata.name for one in collection_tasks(name)] for name in MTEB_COLLECTIONS.values()}
    return {name: len(members) for name, members in found.items() if task in members}


def tasks_of_types(types: Sequence[str], languages: Sequence[str]) -> list[str]:
    """Return the names of MTEB tasks by type and language."""
    found = import_extra("mteb", "mteb").get_tasks(task_types=list(types) or None, languages=list(languages) or None)
    return [task.metadata.name for task in found]
