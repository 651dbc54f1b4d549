"""``clip_benchmark.datasets.builder``: datasets for torch's loader, read by our readers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from eyechart.compat.clip_benchmark.image_set import ImageSet
from eyechart.compat.clip_benchmark.stream import TarStream, open_stream
from eyechart.datasets.catalogue import load_catalogue, user_files
from eyechart.datasets.registry import open_dataset
from eyechart.datasets.resolve import plain_name, resolve_dataset
from eyechart.datasets.wds.tarshard import IMAGE_EXTENSIONS
from eyechart.datasets.wds.webdataset import open_webdataset
from eyechart.errors import UsageError
from eyechart.tasks.registry import TASK_OF_KIND
from eyechart.types import DatasetInfo, DatasetSpec

__all__ = [
    "build_dataset",
    "build_tfds_dataset",
    "build_vtab_dataset",
    "build_wds_dataset",
    "dataset_collection",  # noqa: F822 - made when it is asked for
    "default_collate",  # noqa: F822
    "get_dataset_collate_fn",
    "get_dataset_collection_from_file",
    "get_dataset_default_task",
    "image_captions_collate_fn",
    "value_from_first_key_found",
]
WITH_TEXTS = ("zeroshot_retrieval", "image_caption_selection")


def build_dataset(
    dataset_name: str,
    root: str = "root",
    transform: Callable[[Any], Any] | None = None,
    split: str = "test",
    download: bool = True,
    annotation_file: str | None = None,
    language: str = "en",
    task: str = "zeroshot_classification",  # the dataset knows what it is for
    wds_cache_dir: str | None = None,
    custom_classname_file: str | None = None,
    custom_template_file: str | None = None,
    **kwargs: Any,
) -> Any:
    """Open a dataset by name: a stream for ``wds/NAME``, an indexed dataset for all others.

    ``classes`` and ``templates`` are those of the dataset, of the user's files, or of the prompt pack.
    """
    if kwargs:
        raise UsageError(f"build_dataset takes no {min(kwargs)!r} here.", advice="Leave it out.")
    options = {
        "allow_blank_classnames": True,  # DataComp's copy of CLEVR has one
        "classname_file": custom_classname_file,
        "template_file": custom_template_file,
        "annotation_file": annotation_file,
        "cache_dir": wds_cache_dir,
        "catalogue": user_files(),
    }
    spec = resolve_dataset(
        dataset_name,
        root,
        split=split,
        language=language,
        options={key: value for key, value in options.items() if value},
    )
    if dataset_name.startswith("wds/") and spec.reader == "wds":
        return _stream(spec, transform)
    if not download and spec.reader == "torchvision":
        spec = replace(spec, options={**spec.options, "source": {**spec.options["source"], "download": False}})
    dataset = open_dataset(spec)
    _warn(dataset.info)
    return ImageSet(dataset, transform)


def _warn(info: DatasetInfo) -> None:
    """Say what a result would say in a notice."""
    blank = [place for place, name in enumerate(info.classnames) if not name.strip()]
    said = [f"{info.name}: class {place} has no name." for place in blank]
    for message in (*said, *(note.message for note in info.notes)):
        warnings.warn(message, stacklevel=3)


def _stream(spec: DatasetSpec, transform: Callable[[Any], Any] | None) -> TarStream:
    # What the catalogue knows of a set's columns is for our own readers: here class names are as in the file.
    raw = replace(spec, options={key: value for key, value in spec.options.items() if key != "source"})
    dataset = open_webdataset(raw)
    info = dataset.info
    _warn(info)
    stream = open_stream(dataset.files, [shard.file for shard in dataset.shards()])
    target = {"retrieval": "txt", "multilabel": "npy"}.get(info.kind, "cls")
    split_lines = str.splitlines if info.kind == "retrieval" else None
    stream = stream.to_tuple(list(IMAGE_EXTENSIONS), target).map_tuple(transform, split_lines)
    if info.kind != "retrieval":
        stream.classes = list(info.classnames)
        stream.templates = {name: list(texts) for name, texts in info.class_prompts.items()} or list(info.templates)
    return stream


def build_wds_dataset(
    dataset_name: str,
    transform: Callable[[Any], Any] | None,
    split: str = "test",
    data_dir: str = "root",
    cache_dir: str | None = None,
) -> TarStream:
    """Open a webdataset folder, on disk or at an address."""
    stream: TarStream = build_dataset(
        f"wds/{dataset_name}", root=data_dir, transform=transform, split=split, wds_cache_dir=cache_dir
    )
    return stream


def build_vtab_dataset(
    dataset_name: str,
    transform: Callable[[Any], Any] | None,
    download: bool = True,
    split: str = "test",
    data_dir: str = "root",
    classnames: Sequence[str] = (),  # they are those of the catalogue
) -> Any:
    """Open one of VTAB's datasets by its name there."""
    return build_dataset(f"vtab/{dataset_name}", data_dir, transform, split, download)


def build_tfds_dataset(
    name: str,
    transform: Callable[[Any], Any] | None,
    download: bool = True,
    split: str = "test",
    data_dir: str = "root",
    classes: Sequence[str] | None = None,
) -> Any:
    """Open a dataset of tensorflow_datasets."""
    found = build_dataset(f"tfds/{name}", data_dir, transform, split, download)
    if classes is not None:
        found.classes = list(classes)
    return found


def get_dataset_default_task(dataset: str) -> str:
    """Name the task of a dataset; one that the catalogue does not know is for classification."""
    entry = load_catalogue(user_files()).find(dataset)
    return TASK_OF_KIND[entry.kind] if entry and entry.kind in TASK_OF_KIND else "zeroshot_classification"


def get_dataset_collate_fn(dataset_name: str) -> Callable[[Any], Any]:
    """Return what puts samples of a dataset together: torch's own function, or one that leaves captions as they are."""
    from torch.utils.data import default_collate

    takes_texts = get_dataset_default_task(plain_name(dataset_name)) in WITH_TEXTS
    return image_captions_collate_fn if takes_texts else default_collate


def image_captions_collate_fn(batch: Iterable[tuple[Any, Sequence[str]]]) -> tuple[Any, tuple[Sequence[str], ...]]:
    """Put images into one tensor, and leave the captions of each as they are."""
    from torch.utils.data import default_collate

    images, texts = zip(*batch, strict=True)
    return default_collate(list(images)), texts


def get_dataset_collection_from_file(path: str) -> list[str]:
    """Read names of datasets, one a line."""
    return [line.strip() for line in Path(path).read_text(encoding="utf-8").splitlines()]


def value_from_first_key_found(dic: Mapping[str, Any], keys: Iterable[str]) -> Any:
    """Return the value of the first key that is there, or nothing."""
    return next((dic[key] for key in keys if key in dic), None)


@cache
def _collections() -> dict[str, list[str]]:
    return {name: list(members) for name, members in load_catalogue(user_files()).collections.items()}


def __getattr__(name: str) -> Any:
    if name == "dataset_collection":
        return _collections()
    if name == "default_collate":
        from torch.utils.data import default_collate

        return default_collate
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
