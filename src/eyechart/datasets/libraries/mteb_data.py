"""The data of MTEB's tasks in folders: as the library's repositories hold them, as BEIR does, as C-MTEB does.

README.md with ``configs``                        a repository of MTEB as it was downloaded: the library reads it
corpus.jsonl, queries.jsonl, qrels/{split}.tsv    BEIR, and our own folders of texts
NAME/.../corpus-*.parquet, NAME-qrels/...         C-MTEB, which is how ModelScope has the Chinese tasks
{split}.jsonl, {split}.parquet, ...               tasks other than retrieval: the library reads them
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from eyechart.datasets.layout import no_such_split
from eyechart.datasets.remote.hubs import HubFiles
from eyechart.datasets.remote.open import open_files
from eyechart.datasets.text_collection import CORPUS, read_collection
from eyechart.errors import DataError, first_line
from eyechart.io.digests import file_digest
from eyechart.io.files import cache_root
from eyechart.io.progress import Progress
from eyechart.types import TextCollection, digest_json

QRELS = "-qrels"
SCOPE_NAMES = {
    "MMarcoReranking": "Mmarco-reranking",
    "CMedQAv1": "CMedQAv1-reranking",
    "CMedQAv2": "CMedQAv2-reranking",
    "TNews": "TNews-classification",
    "IFlyTek": "IFlyTek-classification",
    "Ocnli": "OCNLI",
}
"""Repositories of C-MTEB that are called otherwise than MTEB's."""


def load_folder(task: Any, folder: Path) -> None:
    """Give a task the data of a folder.

    Raises:
        DataError: If the folder does not hold them.
    """
    if _is_retrieval(task) and (folder / CORPUS).is_file() and not _has_configs(folder):
        for split in task.eval_splits:
            _put(task, split, read_collection(folder, split))
        task.data_loaded = True
        return
    with _cache_of(folder):
        _load_with_library(task, folder)
    task.data_loaded = True


def content_of(folder: Path) -> list[list[str]]:
    """Return what is in a folder, and in that of its relevance: names and digests."""
    return [
        [str(path.relative_to(place)), file_digest(path).hex()]
        for place in (folder, _qrels_of(folder))
        for path in sorted(place.rglob("*"))
        if path.is_file()
    ]


@contextmanager
def _cache_of(folder: Path) -> Iterator[None]:
    """Let the library ``datasets`` keep what it makes of a folder under the folder's content.

    Its own cache goes by the folder's name and its README alone: other data of the same name would be read as these.
    """
    from datasets import config

    before = config.HF_DATASETS_CACHE
    config.HF_DATASETS_CACHE = cache_root() / "mteb" / digest_json(content_of(folder))
    try:
        yield
    finally:
        config.HF_DATASETS_CACHE = before


def _load_with_library(task: Any, folder: Path) -> None:
    if _is_retrieval(task) and _qrels_of(folder).is_dir():
        _load_parts(task, folder)
    else:
        # The library reads local folders, too, if they stand in the place of the repository's name.
        source = {**task.metadata.dataset, "path": str(folder.resolve())}
        task.metadata = task.metadata.model_copy(update={"dataset": source})
        try:
            task.load_data()
        except (ValueError, KeyError, OSError) as error:
            raise DataError(
                f"{folder} does not hold the data of {task.metadata.name} ({first_line(error)}).",
                advice="It must be MTEB's repository as downloaded, or hold a file for each split.",
            ) from error


def cut(task: Any, limit: int) -> None:
    """Keep the first queries of each split and the whole corpus; of other tasks, the first rows of what is scored."""
    if _is_retrieval(task):
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


def from_modelscope(path: str, options: Mapping[str, Any], progress: Progress) -> Path:
    """Mirror the repository of a task, and that of its relevance where it is apart; return the folder.

    Raises:
        DataError: If ModelScope does not have it, or cannot be reached.
    """
    owner, _, name = path.partition("/")
    repository = f"C-MTEB/{SCOPE_NAMES.get(name, name)}" if owner == "mteb" else path
    folder = _mirror(repository, options, progress)
    if any(folder.rglob("corpus*")):
        _mirror(repository + QRELS, options, progress)
    return folder


def _qrels_of(folder: Path) -> Path:
    """Return where the relevance lies if it is apart: beside the folder, in the cache's mirror or elsewhere."""
    name, mark, revision = folder.name.partition("--master")
    return folder.with_name(f"{name}{QRELS}{mark}{revision}")


def _mirror(repository: str, options: Mapping[str, Any], progress: Progress) -> Path:
    files = open_files(f"https://modelscope.cn/datasets/{repository}/tree/master", options)
    files.exists()
    if isinstance(files, HubFiles) and not files.offline:
        for name in files.tree:
            files.fetch(name, progress)
    return files.folder


def _is_retrieval(task: Any) -> bool:
    """Tell whether a task has queries and documents: MTEB's reranking has them as well."""
    from mteb.abstasks import AbsTaskRetrieval

    return isinstance(task, AbsTaskRetrieval)


def _has_configs(folder: Path) -> bool:
    readme = folder / "README.md"
    return readme.is_file() and "\nconfigs:" in readme.read_text("utf-8", "replace")


def _put(task: Any, split: str, collection: TextCollection) -> None:
    """Give a retrieval task one split of data."""
    from datasets import Dataset

    asked = [query for query in collection.queries if collection.relevance.get(query.id)]
    task.dataset = getattr(task, "dataset", None) or {"default": {}}
    task.dataset["default"][split] = {
        "corpus": Dataset.from_list([{"id": item.id, "text": item.text} for item in collection.documents]),
        "queries": Dataset.from_list([{"id": query.id, "text": query.text} for query in asked]),
        "relevant_docs": {
            query: {name: int(gain) for name, gain in row.items()} for query, row in collection.relevance.items()
        },
        "top_ranked": {query: list(names) for query, names in collection.candidates.items()} or None,
    }


def _load_parts(task: Any, folder: Path) -> None:
    """Read C-MTEB's form: corpus and queries are two splits of one repository, relevance is another repository."""
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
        parts = {part: Dataset.from_list(_texts(texts[part])) for part in ("corpus", "queries")}
        known = [i for i, name in enumerate(parts["queries"]["id"]) if name in relevance]
        parts["queries"] = parts["queries"].select(known)
        task.dataset["default"][split] = {**parts, "relevant_docs": relevance, "top_ranked": None}


def _texts(rows: Any) -> list[dict[str, str]]:
    return [{"id": str(row.get("id", row.get("_id"))), "text": row["text"]} for row in rows]
