"""TensorFlow Datasets: ``tfds/NAME`` and the sets of VTAB.

Data that we prepare is ArrayRecord, which needs no TensorFlow; data that somebody prepared as TFRecord does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from eyechart.datasets.classes import class_info, read_class_texts
from eyechart.datasets.images import from_pixels
from eyechart.datasets.layout import no_such_split, own_split
from eyechart.datasets.rows import RowDataset
from eyechart.errors import DataError, MissingExtraError, NotHereError, first_line, import_extra
from eyechart.io.digests import files_digest
from eyechart.io.media import ImageRef
from eyechart.types import DatasetSpec, Sample, digest_json

FORMAT = "array_record"
CLEVR_DISTANCES = (0.0, 8.0, 8.5, 9.0, 9.5, 10.0, 100.0)
KITTI_DISTANCES = (-100.0, 8.0, 20.0, 999.0)
KITTI_VEHICLES = 3
"""Car, van and truck come first among KITTI's types."""


def open_tfds(spec: DatasetSpec) -> RowDataset[int]:
    """Open a prepared dataset under the root, or let TensorFlow Datasets prepare it there."""
    library = import_extra("tensorflow_datasets", "tfds")
    settings = spec.options["source"]
    builder = _builder(library, spec, settings["dataset"])
    split = own_split(spec)
    if split.partition("[")[0].partition("+")[0] not in builder.info.splits:
        raise no_such_split(spec.name, spec.split, list(settings.get("splits") or builder.info.splits))
    rows = _rows(library, spec, builder, split)
    label = settings.get("label", "label")
    features = builder.info.features
    names = tuple(getattr(features[label], "names", None) or ()) if label in features else ()
    texts = read_class_texts(None, spec, names)
    info = class_info(spec, "classification", texts, str(builder.data_dir))
    make = _RecordMaker(rows, LABELS.get(label) or partial(_field, name=label), settings.get("scale", 1), spec.name)
    return RowDataset(info, range(len(rows)), make, partial(_content, builder, split, label))


def _content(builder: Any, split: str, label: str) -> str:
    """Digest the records of the split and the small files that say how to read them."""
    folder = Path(builder.data_dir)
    files = {Path(path) for path in builder.info.splits[split].filepaths} | set(folder.glob("*.json"))
    return digest_json([str(builder.info.full_name), split, label, files_digest(files, folder)])


@dataclass(frozen=True)
class _RecordMaker:
    rows: Sequence[Mapping[str, Any]]
    label: Callable[[Mapping[str, Any]], int]
    scale: int
    name: str

    def __call__(self, index: int) -> Sample:
        row = self.rows[index]
        image = ImageRef(f"{self.name} record {index}", data=bytes(row["image"]))
        if self.scale != 1:
            image = _scaled(image, self.scale)
        return Sample(str(index), image, label=self.label(row))


def _scaled(image: ImageRef, factor: int) -> ImageRef:
    """Stretch pixel values: dSprites stores zeros and ones."""
    return from_pixels(image.decode().point(lambda value: value * factor), image.source)


def _field(row: Mapping[str, Any], name: str) -> int:
    return int(row[name])


def clevr_count(row: Mapping[str, Any]) -> int:
    """Count CLEVR's objects; a scene has three to ten."""
    return len(row["objects"]["size"]) - 3


def clevr_distance(row: Mapping[str, Any]) -> int:
    """Bin the distance of CLEVR's closest object, as VTAB does."""
    return _bin(float(np.min(np.asarray(row["objects"]["pixel_coords"])[:, 2])), CLEVR_DISTANCES)


def kitti_vehicle_distance(row: Mapping[str, Any]) -> int:
    """Bin the distance of KITTI's closest vehicle, as VTAB does; the last bin is for none."""
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
    """Return what is prepared under the root, in any version; if nothing is, prepare it."""
    missing = library.core.registered.DatasetNotFoundError
    try:
        return library.core.read_only_builder.builder_from_files(name, data_dir=spec.root)
    except missing as error:
        if spec.options.get("offline"):
            raise NotHereError(
                f"{name} is not prepared in {spec.root}, and --offline forbids fetching it.",
                advice="Run once without --offline.",
                source=f"tensorflow_datasets, {name}",
            ) from error
    try:
        builder = library.builder(name, data_dir=spec.root, try_gcs=False, file_format=FORMAT)
    except missing as error:
        raise DataError(
            f"TensorFlow Datasets knows no {name!r}, and {spec.root} has no prepared one.",
            advice="Check the name and --dataset_root.",
        ) from error
    return _prepared(spec, name, builder)


def _prepared(spec: DatasetSpec, name: str, builder: Any) -> Any:
    try:
        builder.download_and_prepare()
    except Exception as error:
        # Builders run arbitrary code: downloads, archives, TensorFlow. Whatever it was, the user needs the reason.
        raise DataError(
            f"TensorFlow Datasets could not prepare {name} in {spec.root} ({first_line(error)}).",
            advice=f"See `eyechart info {spec.options.get('entry', spec.name)}`; some builders need tensorflow itself.",
        ) from error
    return builder


def _rows(library: Any, spec: DatasetSpec, builder: Any, split: str) -> Sequence[Mapping[str, Any]]:
    """Return the records of a split in their order on disk, images still encoded."""
    decoders = {"image": library.decode.SkipDecoding()}
    if builder.info.file_format.value == FORMAT:
        try:
            rows: Sequence[Mapping[str, Any]] = builder.as_data_source(split=split, decoders=decoders)
        except ValueError as error:
            raise DataError(f"{spec.name}: {builder.data_dir} has no split {split!r} ({error}).") from error
        return rows
    if find_spec("tensorflow") is None:
        raise MissingExtraError(
            f"{spec.name} in {spec.root} is prepared as {builder.info.file_format.value}, which needs TensorFlow.",
            advice="pip install tensorflow, or prepare it again with file_format='array_record'.",
        )
    config = library.ReadConfig(interleave_cycle_length=1)
    stream = builder.as_dataset(split=split, decoders=decoders, read_config=config, shuffle_files=False)
    return list(library.as_numpy(stream))
