"""``clip_benchmark.datasets.builder`` and ``webdataset_builder``: datasets for torch loaders, and their export."""

import io
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from eyechart.compat.clip_benchmark.stream import TarStream, open_stream
from eyechart.datasets.catalogue import load_catalogue, user_files
from eyechart.datasets.in_memory_rows import ObjectDataset, ObjectRow, ObjectRows
from eyechart.datasets.registry import open_dataset
from eyechart.datasets.resolve import plain_name, resolve_dataset
from eyechart.datasets.row_dataset import RowDataset
from eyechart.datasets.tar_shards import IMAGE_EXTENSIONS
from eyechart.datasets.webdataset import open_webdataset
from eyechart.datasets.webdataset_export import FORMATS, MAX_COUNT, MAX_SIZE, export_webdataset
from eyechart.errors import DataError, UsageError, unknown_name
from eyechart.io.images import to_rgb
from eyechart.manifest import iter_samples
from eyechart.tasks.registry import TASK_OF_KIND
from eyechart.types import Dataset, DatasetInfo, DatasetSpec, Kind, Sample

__all__ = [
    "PIL_to_bytes", "build_dataset", "build_tfds_dataset", "build_vtab_dataset", "build_wds_dataset", "convert_dataset",
    "convert_retrieval_dataset",
    "dataset_collection",  # noqa: F822 - created on first use
    "get_dataset_collate_fn", "get_dataset_collection_from_file", "get_dataset_default_task",
    "image_captions_collate_fn", "path_to_bytes", "value_from_first_key_found",
]  # fmt: skip
WITH_TEXTS = ("zeroshot_retrieval", "image_caption_selection")
Transform = Callable[[Any], Any] | None


def build_dataset(
    dataset_name: str,
    root: str = "root",
    transform: Transform = None,
    split: str = "test",
    download: bool = True,
    annotation_file: str | None = None,
    language: str = "en",
    task: str = "zeroshot_classification",  # determined by the dataset
    wds_cache_dir: str | None = None,
    custom_classname_file: str | None = None,
    custom_template_file: str | None = None,
    **kwargs: Any,
) -> Any:
    """Open a dataset by name: a stream for ``wds/NAME``, an indexed dataset otherwise.

    ``classes`` and ``templates`` come from the dataset, the user's files or the prompt pack.
    """
    if kwargs:
        raise UsageError("build_dataset does not support {name!r}.", advice="Omit it.", name=min(kwargs))
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
    """Warn about what a result would report as a notice."""
    blank = [place for place, name in enumerate(info.classnames) if not name.strip()]
    said = [f"{info.name}: class {place} has no name." for place in blank]
    for message in (*said, *(note.message for note in info.notes)):
        warnings.warn(message, stacklevel=3)


def _stream(spec: DatasetSpec, transform: Transform) -> TarStream:
    # Column definitions of the catalogue are for our readers: here class names are as in the file.
    raw = replace(spec, options={key: value for key, value in spec.options.items() if key != "source"})
    dataset = open_webdataset(raw)
    info = dataset.info
    _warn(info)
    stream = open_stream(dataset.files, [shard.file for shard in dataset.shards()])
    target = {"retrieval": "txt", "multilabel": "npy"}.get(info.kind, "cls")
    split_lines = str.splitlines if info.kind == "retrieval" else None
    stream = stream.to_tuple(list(IMAGE_EXTENSIONS), target).map_tuple(transform, split_lines)
    if info.kind != "retrieval":
        stream.classes, stream.templates = list(info.classnames), _templates(info)
    return stream


def _templates(info: DatasetInfo) -> list[str] | dict[str, list[str]]:
    return {name: list(texts) for name, texts in info.class_prompts.items()} or list(info.templates)


def build_wds_dataset(
    dataset_name: str, transform: Transform, split: str = "test", data_dir: str = "root", cache_dir: str | None = None
) -> TarStream:
    """Open a webdataset from a folder or a URL."""
    stream: TarStream = build_dataset(
        f"wds/{dataset_name}", root=data_dir, transform=transform, split=split, wds_cache_dir=cache_dir
    )
    return stream


def build_vtab_dataset(
    dataset_name: str,
    transform: Transform,
    download: bool = True,
    split: str = "test",
    data_dir: str = "root",
    classnames: Sequence[str] = (),  # taken from the catalogue
) -> Any:
    """Open a VTAB dataset by its name there."""
    return build_dataset(f"vtab/{dataset_name}", data_dir, transform, split, download)


def build_tfds_dataset(
    name: str,
    transform: Transform,
    download: bool = True,
    split: str = "test",
    data_dir: str = "root",
    classes: Sequence[str] | None = None,
) -> Any:
    """Open a dataset from tensorflow_datasets."""
    found = build_dataset(f"tfds/{name}", data_dir, transform, split, download)
    if classes is not None:
        found.classes = list(classes)
    return found


def get_dataset_default_task(dataset: str) -> str:
    """Return the task of a dataset; classification if the catalogue does not list it."""
    entry = load_catalogue(user_files()).find(dataset)
    return TASK_OF_KIND[entry.kind] if entry and entry.kind in TASK_OF_KIND else "zeroshot_classification"


def get_dataset_collate_fn(dataset_name: str) -> Callable[[Any], Any]:
    """Return the collate function of a dataset: torch's default, or one that keeps captions as lists."""
    from torch.utils.data import default_collate

    takes_texts = get_dataset_default_task(plain_name(dataset_name)) in WITH_TEXTS
    return image_captions_collate_fn if takes_texts else default_collate


def image_captions_collate_fn(batch: Iterable[tuple[Any, Sequence[str]]]) -> tuple[Any, tuple[Sequence[str], ...]]:
    """Stack images into one tensor and keep the captions of each as a list."""
    from torch.utils.data import default_collate

    images, texts = zip(*batch, strict=True)
    return default_collate(list(images)), texts


def get_dataset_collection_from_file(path: str) -> list[str]:
    """Read dataset names, one per line."""
    return [line.strip() for line in Path(path).read_text(encoding="utf-8").splitlines()]


def value_from_first_key_found(dic: Mapping[str, Any], keys: Iterable[str]) -> Any:
    """Return the value of the first key that exists, or None."""
    return next((dic[key] for key in keys if key in dic), None)


class ImageSet:
    """Transformed images with a label, a multi-hot vector, or captions."""

    def __init__(self, dataset: Dataset, transform: Transform) -> None:
        info = dataset.info
        self.dataset, self.transform, self.kind = dataset, transform, info.kind
        if info.classnames:
            self.classes, self.templates = list(info.classnames), _templates(info)
        self._rows: Sequence[Any]
        if info.kind == "selection":
            questions: dict[str, list[Sample]] = {}
            for sample in iter_samples(dataset):
                questions.setdefault(str(sample.meta.get("question", sample.id)), []).append(sample)
            self._rows = list(questions.values())
        else:
            self._rows = dataset.rows if isinstance(dataset, RowDataset) else list(iter_samples(dataset))

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        row = self._rows[index]
        if isinstance(row, list):
            # The texts that match the images come first, in the order of the images.
            images = [self._image(sample) for sample in row]
            texts = [sample.texts[0] for sample in row if sample.texts]
            texts += [text for sample in row for text in sample.texts[1:]]
            if len(images) > 1 and self.transform is not None:
                import torch

                return torch.stack(images), texts
            return images if len(images) > 1 else images[0], texts
        sample: Sample = self.dataset.make(row) if isinstance(self.dataset, RowDataset) else row
        target: Any = list(sample.texts) if self.kind == "retrieval" else sample.label
        if self.kind == "multilabel":
            import torch

            target = torch.zeros(len(self.classes), dtype=torch.int64)
            target[list(sample.labels)] = 1
        return self._image(sample), target

    def _image(self, sample: Sample) -> Any:
        if sample.need_image().zeros:
            import torch

            return torch.zeros(3, 224, 224)
        image = to_rgb(sample.need_image().decode())
        return image if self.transform is None else self.transform(image)


def PIL_to_bytes(image_format: str) -> Callable[[Any], bytes]:  # noqa: N802 - the name that scripts import
    """Return a transform that encodes an image as webp (lossless), png or jpg."""
    if image_format not in FORMATS:
        raise unknown_name("image format", image_format, FORMATS)

    def transform(image: Any) -> bytes:
        stream = io.BytesIO()
        image.save(stream, **FORMATS[image_format])
        return stream.getvalue()

    return transform


def path_to_bytes(filepath: str) -> bytes:
    """Return the bytes of a file."""
    return Path(filepath).read_bytes()


def convert_dataset(
    dataset: Any,
    split: str,
    output_folder: str,
    *,
    transform: Transform = None,
    image_format: str = "webp",
    max_count: int = MAX_COUNT,
    max_size: int = MAX_SIZE,
    multilabel: bool = False,
    verbose: bool = True,  # nothing is printed here
) -> None:
    """Write pairs of image and label, an integer or (``multilabel``) a multi-hot vector.

    Images are paths with ``transform=path_to_bytes``, PIL images with ``transform=PIL_to_bytes(...)``, or bytes. Class
    names and templates are the dataset's ``classes`` and ``templates``, if present.
    """
    kind: Kind = "multilabel" if multilabel else "classification"
    limits = {"max_count": max_count, "max_size": max_size}
    _export(dataset, split, kind, output_folder, transform, image_format, **limits)


def convert_retrieval_dataset(
    dataset: Any,
    split: str,
    output_folder: str,
    *,
    transform: Transform = None,
    image_format: str = "webp",
    max_count: int = MAX_COUNT,
    max_size: int = MAX_SIZE,
    verbose: bool = True,  # nothing is printed here
) -> None:
    """Write pairs of image and list of captions; images are as in `convert_dataset`."""
    limits = {"max_count": max_count, "max_size": max_size}
    _export(dataset, split, "retrieval", output_folder, transform, image_format, **limits)


def _export(
    dataset: Any, split: str, kind: Kind, folder: str, transform: Transform, image_format: str, **limits: Any
) -> None:
    """Write the pairs of a script's dataset; without a transform, images are bytes or are encoded in the format."""
    classes: tuple[str, ...] = ()
    templates: tuple[str, ...] = ()
    if kind != "retrieval":
        classes, templates = (tuple(getattr(dataset, name, None) or ()) for name in ("classes", "templates"))
    if kind == "multilabel" and not classes:
        raise DataError("A multilabel dataset needs class names.", advice="Set its attribute `classes`.")
    write = transform or PIL_to_bytes(image_format)
    targets: dict[str, Callable[[Any], Any]] = {
        "classification": int,
        "multilabel": lambda present: np.flatnonzero(np.asarray(present)),
        "retrieval": tuple,
    }

    def rows() -> Iterator[ObjectRow]:
        # Some datasets only have a length and items.
        pairs = dataset if hasattr(dataset, "__iter__") else (dataset[i] for i in range(len(dataset)))
        for image, target in pairs:
            data = image if transform is None and isinstance(image, bytes) else write(image)
            yield ObjectRow(data, targets[kind](target))

    info = DatasetInfo("dataset", kind, split, classnames=classes, templates=templates)
    source = ObjectDataset(info, ObjectRows(kind, rows, classes, templates), "")
    export_webdataset([source], Path(folder), overwrite=True, **limits)


def __getattr__(name: str) -> Any:
    if name == "dataset_collection":
        found = {key: list(members) for key, members in load_catalogue(user_files()).collections.items()}
        return globals().setdefault(name, found)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
