"""Datasets in the formats of other libraries: Hugging Face datasets, TensorFlow Datasets and torchvision."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from eyechart.datasets.arrow_files import arrow_rows, arrow_schema, describe_columns
from eyechart.datasets.class_texts import class_info, read_class_texts
from eyechart.datasets.image_finder import from_pixels
from eyechart.datasets.image_table import READ_AS, class_numbers
from eyechart.datasets.in_memory import read_columns, specified_columns
from eyechart.datasets.in_memory_rows import ObjectDataset, make_dataset
from eyechart.datasets.locations import ONLY_SPLIT, files_by_split, no_such_split, source_split
from eyechart.datasets.row_dataset import RowDataset, digest_samples, find_image
from eyechart.errors import DataError, MissingExtraError, NotHereError, first_line, import_extra
from eyechart.io.digests import files_digest
from eyechart.io.files import shown
from eyechart.io.images import ImageRef
from eyechart.types import DatasetSpec, Sample, digest_json

FORMAT = "array_record"
CLEVR_DISTANCES = (0.0, 8.0, 8.5, 9.0, 9.5, 10.0, 100.0)
KITTI_DISTANCES = (-100.0, 8.0, 20.0, 999.0)
KITTI_VEHICLES = 3
"""Car, van and truck come first among KITTI's types."""


def hugging_face_splits(root: Path) -> dict[str, list[Path]]:
    """Return the files by split of a Parquet file, a repository of them, or a folder of ``save_to_disk``."""
    if root.is_file():
        return {ONLY_SPLIT: [root]}
    return files_by_split(root, ".arrow") or files_by_split(root, ".parquet")


def open_hugging_face(spec: DatasetSpec) -> ObjectDataset:
    """Read Parquet or Arrow files with images in cells; the features in their schema describe the columns."""
    root = Path(spec.root)
    splits = hugging_face_splits(root)
    if spec.split not in splits:
        raise no_such_split(spec.name, spec.split, list(splits))
    files = splits[spec.split]
    folder = root if root.is_dir() else root.parent
    described = describe_columns(arrow_schema(files[0]))
    if {"question", "answer"} <= described.keys():
        raise DataError(
            "{path} is a table of questions.", advice="Convert it with `eyechart vlm convert`.", path=files[0]
        )

    def rows(image: str, only: Sequence[str] | None) -> Iterator[Mapping[str, Any]]:
        for row in arrow_rows(files, only):
            yield {**row, image: _located(row[image], folder)}

    source = read_columns(spec.name, described, rows, specified_columns(spec), spec.options.get(READ_AS, ""))
    dataset = make_dataset(spec, source, root, files_digest(files, folder), folder)
    if source.kind != "retrieval":
        class_numbers(files[0], (), (), dataset.info.classnames)
    return dataset


def _located(image: Any, folder: Path) -> Any:
    path = image if isinstance(image, str) else image.get("path") if isinstance(image, dict) else None
    if path is None or (isinstance(image, dict) and image.get("bytes")):
        return image
    return find_image(path, folder) or Path(path)


def open_tfds(spec: DatasetSpec) -> RowDataset[int]:
    """Open a prepared dataset under the root, or let TensorFlow Datasets prepare it there."""
    library = import_extra("tensorflow_datasets", "tfds")
    settings = spec.options["source"]
    builder = _builder(library, spec, settings["dataset"])
    split = source_split(spec)
    if split.partition("[")[0].partition("+")[0] not in builder.info.splits:
        raise no_such_split(spec.name, spec.split, list(settings.get("splits") or builder.info.splits))
    rows = _rows(library, spec, builder, split)
    label = settings.get("label", "label")
    features = builder.info.features
    names = tuple(getattr(features[label], "names", None) or ()) if label in features else ()
    info = class_info(spec, "classification", read_class_texts(None, spec, names), str(builder.data_dir))
    make = partial(_record, rows=rows, label=label, scale=settings.get("scale", 1), name=spec.name)
    return RowDataset(info, range(len(rows)), make, partial(_tfds_content, builder, split, label))


def _tfds_content(builder: Any, split: str, label: str) -> str:
    folder = Path(builder.data_dir)
    files = {Path(path) for path in builder.info.splits[split].filepaths} | set(folder.glob("*.json"))
    return digest_json([str(builder.info.full_name), split, label, files_digest(files, folder)])


def _record(index: int, *, rows: Sequence[Mapping[str, Any]], label: str, scale: int, name: str) -> Sample:
    row = rows[index]
    image = ImageRef(f"{name} record {index}", data=bytes(row["image"]))
    if scale != 1:  # dSprites stores zeros and ones
        image = from_pixels(image.decode().point(lambda value: value * scale), image.source)
    compute = LABELS.get(label)
    return Sample(str(index), image, label=compute(row) if compute else int(row[label]))


def clevr_count(row: Mapping[str, Any]) -> int:
    """Count CLEVR's objects; a scene has three to ten."""
    return len(row["objects"]["size"]) - 3


def clevr_distance(row: Mapping[str, Any]) -> int:
    """Bin the distance of CLEVR's closest object, as VTAB does."""
    return _bin(float(np.min(np.asarray(row["objects"]["pixel_coords"])[:, 2])), CLEVR_DISTANCES)


def kitti_vehicle_distance(row: Mapping[str, Any]) -> int:
    """Bin the distance of KITTI's closest vehicle, as VTAB does; without one, the last bin."""
    vehicles = np.asarray(row["objects"]["type"]) < KITTI_VEHICLES
    depths = np.asarray(row["objects"]["location"]).reshape(-1, 3)[vehicles, 2]
    return _bin(float(min(depths, default=1000.0)), KITTI_DISTANCES)


def _bin(value: float, thresholds: tuple[float, ...]) -> int:
    return max(i for i, threshold in enumerate(thresholds) if threshold < value)


LABELS: Mapping[str, Callable[[Mapping[str, Any]], int]] = {
    "clevr_count_all": clevr_count,
    "clevr_closest_object_distance": clevr_distance,
    "kitti_closest_vehicle_distance": kitti_vehicle_distance,
}
"""Labels that VTAB computes; every other label is a field."""


def _builder(library: Any, spec: DatasetSpec, name: str) -> Any:
    """Return the builder of the prepared data under the root, in any version; prepare them if there are none."""
    missing = library.core.registered.DatasetNotFoundError
    try:
        return library.core.read_only_builder.builder_from_files(name, data_dir=spec.root)
    except missing as error:
        if spec.options.get("offline"):
            raise NotHereError(
                "{name} is not prepared in {root}, and {--offline} disables downloads.",
                advice="Run once without {--offline}.",
                source=f"tensorflow_datasets, {name}",
                name=name,
                root=spec.root,
            ) from error
    try:
        builder = library.builder(name, data_dir=spec.root, try_gcs=False, file_format=FORMAT)
        builder.download_and_prepare()
    except missing as error:
        raise DataError(
            "{name!r} is unknown to TensorFlow Datasets, and {root} contains no prepared data for it.",
            advice="Check the name and {--dataset_root}.",
            name=name,
            root=spec.root,
        ) from error
    except Exception as error:
        # Builders run arbitrary code: downloads, archives, TensorFlow. Any failure is reported with its reason.
        raise DataError(
            "TensorFlow Datasets could not prepare {name} in {root} ({reason}).",
            advice="See `eyechart info {options}`; some builders require TensorFlow itself.",
            name=name,
            root=spec.root,
            reason=first_line(error),
            options=spec.options.get("entry", spec.name),
        ) from error
    return builder


def _rows(library: Any, spec: DatasetSpec, builder: Any, split: str) -> Sequence[Mapping[str, Any]]:
    """Return the records of a split in their order on disk, with encoded images."""
    decoders = {"image": library.decode.SkipDecoding()}
    if builder.info.file_format.value == FORMAT:
        try:
            rows: Sequence[Mapping[str, Any]] = builder.as_data_source(split=split, decoders=decoders)
        except ValueError as error:
            raise DataError(
                "{name}: {data_dir} has no split {split!r} ({reason}).",
                name=spec.name,
                data_dir=builder.data_dir,
                split=split,
                reason=error,
            ) from error
        return rows
    if find_spec("tensorflow") is None:
        raise MissingExtraError(
            "{name} in {root} is prepared as {file_format}, which requires TensorFlow.",
            advice="Run `pip install tensorflow`, or prepare it again with file_format='array_record'.",
            name=spec.name,
            root=spec.root,
            file_format=builder.info.file_format.value,
        )
    config = library.ReadConfig(interleave_cycle_length=1)
    stream = builder.as_dataset(split=split, decoders=decoders, read_config=config, shuffle_files=False)
    return list(library.as_numpy(stream))


def open_torchvision(spec: DatasetSpec) -> RowDataset[int]:
    """Construct the class on the root folder; torchvision downloads and verifies missing data.

    Class names are those of the prompt pack, else torchvision's, with the characters in ``spaces`` replaced by spaces.
    Image files are unchanged; arrays become PNG.
    """
    settings = spec.options["source"]
    dataset = _build(spec, settings)
    spaces = str.maketrans(dict.fromkeys(settings.get("spaces", ""), " "))
    names = tuple(str(name).translate(spaces) for name in getattr(dataset, "classes", ()))
    texts = read_class_texts(None, spec, names)
    info = class_info(spec, "classification", texts, f"{settings['dataset']} in {spec.root}")
    make = partial(_torchvision_sample, items=_listed_files(dataset) or dataset, root=spec.root)
    order: Sequence[int] = range(len(dataset))
    if settings.get("sort"):
        # torchvision lists these files in file system order, which differs between machines.
        order = sorted(order, key=lambda index: str(dataset[index][0]))
    return RowDataset(info, order, make, partial(_torchvision_content, spec, settings, make, order))


def _torchvision_sample(index: int, *, items: Any, root: str) -> Sample:
    image, label = items[index]
    if isinstance(image, str | Path):
        path = Path(image)
        name = path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name
        return Sample(shown(name), ImageRef.from_path(path), label=int(label))
    return Sample(str(index), from_pixels(image, f"{root} image {index}"), label=int(label))


def _build(spec: DatasetSpec, settings: dict[str, Any]) -> Any:
    library = import_extra("torchvision.datasets", "torchvision")
    name, downloads = settings["dataset"], settings.get("download", True)
    kind = getattr(library, name)
    arguments = dict(settings.get("arguments", {}))
    split, argument = source_split(spec), settings.get("split_argument")
    if argument:
        arguments[argument] = split == "train" if argument == "train" else split
    if "loader" in inspect.signature(kind).parameters:
        arguments["loader"] = str  # keeps the path instead of reading the image
    offline = bool(spec.options.get("offline"))
    problem: Exception
    try:
        return kind(root=spec.root, download=False, **arguments)
    except (RuntimeError, OSError) as error:
        problem = error
    if downloads and not offline:
        Path(spec.root).mkdir(parents=True, exist_ok=True)
        try:
            return kind(root=spec.root, download=True, **arguments)
        except (RuntimeError, OSError, ValueError) as error:
            problem = error
    raise (NotHereError if downloads and offline else DataError)(
        "{name}: torchvision found no complete {dataset} in {root} ({reason}).",
        advice="See `eyechart info {options}` for how to get it.",
        name=spec.name,
        dataset=name,
        root=spec.root,
        reason=first_line(problem),
        options=spec.options.get("entry", spec.name),
    ) from problem


def _listed_files(dataset: Any) -> list[tuple[Any, Any]]:
    """Return paths and labels of the two classes without a loader argument; empty means images are decoded."""
    if hasattr(dataset, "_samples") and type(dataset).__name__ == "GTSRB":
        return list(dataset._samples)
    if hasattr(dataset, "_images") and type(dataset).__name__ == "OxfordIIITPet":
        return list(zip(dataset._images, dataset._labels, strict=True))
    return []


def _torchvision_content(
    spec: DatasetSpec, settings: dict[str, Any], make: Callable[[int], Sample], order: Sequence[int]
) -> str:
    """Digest the samples if images are files; for arrays, digest the files that contain them."""
    folders = [path for pattern in settings.get("present", ()) for path in Path(spec.root).glob(pattern)]
    files = [file for folder in folders for file in folder.rglob("*") if file.is_file()]
    if not files or (order and make(order[0]).need_image().path is not None):
        return digest_samples(map(make, order))
    return digest_json(
        [settings["dataset"], settings.get("arguments"), spec.split, files_digest(files, Path(spec.root))]
    )
