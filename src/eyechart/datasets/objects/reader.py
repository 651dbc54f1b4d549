"""The ``object`` reader: which split of an object is meant, and what kind of dataset it is."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from eyechart.datasets.objects.hugging_face import read_hugging_face
from eyechart.datasets.objects.iterables import read_iterable
from eyechart.datasets.objects.lists import FIELDS, read_lists
from eyechart.datasets.objects.table import ObjectDataset, ObjectRows, make_dataset
from eyechart.datasets.table_columns import READ_AS, TableColumns
from eyechart.errors import DataError, UsageError
from eyechart.types import DatasetSpec

ACCEPTED = (
    'A dataset is a name, a path, a Dataset of Hugging Face or torch, {"images": [...], "labels": [...], '
    '"classnames": [...]}, {"images": [...], "captions": [...]}, or one of these for each split: {"train": ..., '
    '"test": ...}.'
)


@dataclass(frozen=True)
class DataParts:
    """A dataset as it was handed over, with what the caller says of it."""

    data: Any
    classnames: tuple[str, ...] = ()
    templates: tuple[str, ...] = ()


def open_object(spec: DatasetSpec) -> ObjectDataset:
    """Open a split of an object."""
    given = spec.given
    if given is None:
        raise UsageError(f"{spec.name} is no object that was handed over.")
    parts: DataParts = given.thing if isinstance(given.thing, DataParts) else DataParts(given.thing)
    rows = read_rows(spec, _split_of(spec, parts.data), parts)
    named = replace(rows, classnames=parts.classnames or rows.classnames, templates=parts.templates or rows.templates)
    return make_dataset(spec, named, given.kind, given.token)


def read_rows(spec: DatasetSpec, data: Any, parts: DataParts) -> ObjectRows:
    """Find out what a dataset is, and how its rows are read."""
    name, columns = spec.name, _columns(spec)
    if is_hugging_face(data):
        return read_hugging_face(name, data, columns, spec.options.get(READ_AS, ""))
    if isinstance(data, Mapping):
        if columns.used:
            named = ", ".join(sorted(columns.used))
            raise UsageError(f"{name} is a dict of lists, which has no columns {named}.", advice=ACCEPTED)
        return read_lists(name, data)
    if hasattr(data, "__getitem__") or hasattr(data, "__iter__"):
        return read_iterable(name, data, columns, classnames=parts.classnames)
    raise DataError(f"{name}: a {type(data).__name__} is no dataset.", advice=ACCEPTED)


def _columns(spec: DatasetSpec) -> TableColumns:
    """Return the columns that the caller names; empty for what is to be found out."""
    image, label, key = (spec.options.get(f"{what}_column", "") for what in ("image", "label", "id"))
    captions = tuple(spec.options.get("caption_column", ()))
    if label and captions:
        raise UsageError(f"{spec.name}: labels or captions, which?", advice="Give --label_column or --caption_column.")
    return TableColumns(image, label, captions, key)


def is_hugging_face(thing: Any) -> bool:
    """Tell whether it is a dataset of Hugging Face, in memory or streamed."""
    library: Any = sys.modules.get("datasets")
    return library is not None and isinstance(thing, library.Dataset | library.IterableDataset)


def is_split_mapping(thing: Any) -> bool:
    """Tell whether it is a dataset by its splits."""
    return isinstance(thing, Mapping) and not FIELDS & thing.keys()


def _split_of(spec: DatasetSpec, data: Any) -> Any:
    """Return the data of the split that is meant; what is not divided has one split, whatever it is called."""
    if is_split_mapping(data):
        names = [str(name) for name in data if name != "name"]
        wanted = spec.split
        if wanted not in names and len(names) == 1 and wanted == spec.options["only_split"]:
            (wanted,) = names
        if wanted not in names:
            known = ", ".join(names) or "none"
            raise DataError(f"{spec.name}: there is no split {wanted!r}.", advice=f"Its splits: {known}. {ACCEPTED}")
        return data[wanted]
    if spec.split != spec.options["only_split"]:
        own = spec.options["only_split"]
        raise DataError(
            f"{spec.name} is one object, without a split {spec.split!r}.",
            advice=f'Give all splits that the task reads: {{"{spec.split}": ..., "{own}": ...}}.',
        )
    return data
