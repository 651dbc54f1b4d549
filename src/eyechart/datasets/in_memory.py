"""In-memory datasets passed by the caller: torch datasets, Hugging Face datasets, lists and mappings of splits."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

from eyechart.datasets.arrow_files import IMAGE_KEYS, DescribedColumn, describe_columns
from eyechart.datasets.image_table import CAPTION_COLUMNS, CAPTIONS, LABEL_COLUMNS, READ_AS, TableColumns
from eyechart.datasets.in_memory_rows import FIELDS, ObjectDataset, ObjectRow, ObjectRows, make_dataset, read_lists
from eyechart.errors import DataError, UsageError, unknown_name
from eyechart.messages import UserMessage
from eyechart.types import DatasetSpec, Kind

LABEL_KEYS, CAPTION_KEYS = ("label", "target", "cls"), ("captions", "caption", "text")
"""Common keys of dict items."""


def read_iterable(name: str, data: Any, columns: TableColumns, *, classnames: Sequence[str] = ()) -> ObjectRows:
    """Detect the form of items, which may be read repeatedly, from the first; ``classnames`` default to ``classes``."""
    if hasattr(data, "to_dict") and hasattr(data, "columns"):  # a pandas table, which iterates over columns
        data = data.to_dict("records")
    if not hasattr(data, "__len__") and iter(data) is iter(data):
        raise DataError(
            "{name} can be iterated only once.", advice="Convert it to a list: data are read more than once.", name=name
        )
    first = next(_items(data), None)
    if first is None:
        raise DataError("{path} is empty.", path=name)
    if isinstance(first, Mapping):
        keys: tuple[Any, Any] = (
            _key(name, first, columns.image, IMAGE_KEYS),
            _key(name, first, columns.label or "".join(columns.captions[:1]), (*LABEL_KEYS, *CAPTION_KEYS)),
        )
    elif isinstance(first, list | tuple) and len(first) >= 2:
        keys = (0, 1)
    else:
        raise DataError(
            "The items of {name} are {type} objects.",
            advice="An item must be (image, label) or (image, captions).",
            name=name,
            type=type(first).__name__,
        )

    def rows() -> Iterator[ObjectRow]:
        for item in _items(data):
            yield ObjectRow(item[keys[0]], item[keys[1]])

    target = first[keys[1]]
    if isinstance(target, str) or (isinstance(target, list | tuple) and all(isinstance(one, str) for one in target)):
        if classnames and isinstance(target, str):
            return ObjectRows("classification", rows, tuple(classnames), by_name=True)
        return ObjectRows("retrieval", rows)
    return ObjectRows("classification", rows, tuple(classnames) or _classes(name, data))


def is_item(thing: Any) -> bool:
    """True for an item, False for a dataset: a pair, or a dict with an image."""
    if isinstance(thing, Mapping):
        return any(key in thing for key in IMAGE_KEYS)
    return isinstance(thing, list | tuple) and not (thing and isinstance(thing[0], list | tuple))


def _items(data: Any) -> Iterator[Any]:
    """Yield the items, by index if possible: iterating an indexable dataset may not end."""
    if hasattr(data, "__len__") and hasattr(data, "__getitem__"):
        return (data[i] for i in range(len(data)))
    return iter(data)


def _key(name: str, item: Mapping[str, Any], wanted: str, usual: Sequence[str]) -> str:
    found = wanted or next((key for key in usual if key in item), None)
    if found not in item:
        raise DataError(
            "{name}: the keys of its items are: {keys}.",
            advice="Specify the keys: image_column=..., label_column=... or caption_column=...",
            name=name,
            keys=", ".join(map(str, item)),
        )
    return str(found)


def _classes(name: str, data: Any) -> tuple[str, ...]:
    """Return the names of the classes; for a subset, those of the whole dataset."""
    while getattr(data, "classes", None) is None and getattr(data, "dataset", None) is not None:
        data = data.dataset
    names = getattr(data, "classes", None)
    advice = "Pass classnames=[...], in the order of labels."
    if names is None:
        raise DataError("{name} has no class names.", advice=advice, name=name)
    if isinstance(names, Mapping | Set):
        kind = type(names).__name__
        raise DataError("The classes of {name} are a {type}, not a list.", advice=advice, name=name, type=kind)
    return tuple(str(one[0] if isinstance(one, list | tuple) else one) for one in names)


PLAIN = (str, int, float, bool)
"""Types of further columns that become metadata."""
ReadRows = Callable[[str, Sequence[str] | None], Iterator[Mapping[str, Any]]]
"""Yields the rows with the given column of encoded images, or only some columns of them."""


def read_columns(
    name: str, described: Mapping[str, DescribedColumn], rows: ReadRows, columns: TableColumns, read_as: str
) -> ObjectRows:
    """Select the columns of images, labels and captions, and read rows.

    Columns that the user did not specify: the only image column; the only column of class labels, or without one a
    column with a common name for labels, or the only text column, as captions. ``read_as`` is what the task reads:
    class labels, or captions even if there are labels.
    """
    for column in sorted(columns.used):
        if column not in described:
            raise unknown_name(UserMessage("column of {name}", name=name), column, described)
    found = [key for key, column in described.items() if column.kind == "image"]
    image = columns.image or _only(name, found, "images", "image")
    chosen = _with_target(name, described, replace(columns, image=image), read_as)

    def read() -> Iterator[ObjectRow]:
        for row in rows(image, None):
            meta = {key: row[key] for key in row if key not in chosen.used and isinstance(row[key], PLAIN)}
            target = row[chosen.label] if chosen.label else list(_texts(row, chosen.captions))
            yield ObjectRow(row[image], target, meta, str(row[chosen.id]) if chosen.id else "")

    if chosen.captions:
        return ObjectRows("retrieval", read)
    target = chosen.label
    label = described[target]
    kind: Kind = "multilabel" if label.several else "classification"
    if label.kind == "text":
        texts = {text for row in rows(image, [image, target]) for text in _texts(row, (target,))}
        return ObjectRows(kind, read, tuple(sorted(texts)), by_name=True)
    return ObjectRows(kind, read, label.names)


def _texts(row: Mapping[str, Any], columns: Sequence[str]) -> Iterator[Any]:
    for column in columns:
        yield from row[column] if isinstance(row[column], list) else (row[column],)


def _with_target(
    name: str, described: Mapping[str, DescribedColumn], columns: TableColumns, read_as: str
) -> TableColumns:
    if columns.label or columns.captions:
        return columns
    labels = [key for key, column in described.items() if column.kind == "label"]
    named = [key for key in LABEL_COLUMNS if key in described and described[key].kind in ("text", "number")]
    if (labels or named) and read_as != CAPTIONS:
        return replace(columns, label=_only(name, labels or named[:1], "labels", "label"))
    texts = [key for key, column in described.items() if column.kind == "text" and key not in (columns.id, *named)]
    usual = [key for key in CAPTION_COLUMNS if key in texts][:1]
    return replace(columns, captions=(_only(name, usual or texts, "class labels or captions", "caption"),))


def _only(name: str, columns: Sequence[str], what: str, option: str) -> str:
    if len(columns) == 1:
        return columns[0]
    raise DataError(
        "{name} has several columns of {what}: {columns}." if columns else "{name} has no column of {what}.",
        advice="Specify the column: {--{option}_column=NAME}.",
        name=name,
        what=what,
        columns=", ".join(columns),
        option=option,
    )


ACCEPTED = (
    'A dataset must be a name, a path, a Hugging Face or torch Dataset, {"images": [...], "labels": [...], '
    '"classnames": [...]}, {"images": [...], "captions": [...]}, or one of these for each split: {"train": ..., '
    '"test": ...}.'
)


@dataclass(frozen=True)
class DataParts:
    """A dataset passed by the caller, with its class names and templates."""

    data: Any
    classnames: tuple[str, ...] = ()
    templates: tuple[str, ...] = ()


def open_object(spec: DatasetSpec) -> ObjectDataset:
    """Open a split of an object."""
    given = spec.given
    if given is None:
        raise UsageError("{name} was not passed as an object.", name=spec.name)
    parts: DataParts = given.thing if isinstance(given.thing, DataParts) else DataParts(given.thing)
    rows = read_rows(spec, _split_of(spec, parts.data), parts)
    named = replace(rows, classnames=parts.classnames or rows.classnames, templates=parts.templates or rows.templates)
    return make_dataset(spec, named, f"object of {given.kind}", given.token)


def read_rows(spec: DatasetSpec, data: Any, parts: DataParts) -> ObjectRows:
    """Detect the kind of a dataset and return its rows."""
    name, columns = spec.name, specified_columns(spec)
    library: Any = sys.modules.get("datasets")
    if library is not None and isinstance(data, library.Dataset | library.IterableDataset):
        if data.features is None:
            raise DataError("{name} has no features that describe its columns.", advice="Set its features.", name=name)

        def rows(image: str, only: Sequence[str] | None) -> Iterator[Mapping[str, Any]]:
            encoded = data.with_format(None).cast_column(image, library.Image(decode=False))  # and not transformed
            return iter(encoded if only is None else encoded.select_columns(list(only)))

        described = describe_columns(data.features.arrow_schema)
        return read_columns(name, described, rows, columns, spec.options.get(READ_AS, ""))
    if isinstance(data, Mapping):
        if columns.used:
            named = ", ".join(sorted(columns.used))
            raise UsageError(
                "{name} is a dict of lists and has no columns {named}.", advice=ACCEPTED, name=name, named=named
            )
        return read_lists(name, data)
    if hasattr(data, "__getitem__") or hasattr(data, "__iter__"):
        return read_iterable(name, data, columns, classnames=parts.classnames)
    raise DataError("{name}: a {type} is not a dataset.", advice=ACCEPTED, name=name, type=type(data).__name__)


def specified_columns(spec: DatasetSpec) -> TableColumns:
    """Return the columns that the user specified; empty means detect."""
    image, label, key = (spec.options.get(f"{what}_column", "") for what in ("image", "label", "id"))
    columns = TableColumns(image, label, tuple(spec.options.get("caption_column", ())), key)
    if columns.label and columns.captions:
        raise UsageError(
            "{name}: {--label_column} and {--caption_column} cannot be combined.",
            advice="Set either {--label_column} or {--caption_column}.",
            name=spec.name,
        )
    return columns


def is_split_mapping(thing: Any) -> bool:
    """True for a mapping from split names to datasets."""
    return isinstance(thing, Mapping) and not FIELDS & thing.keys()


def _split_of(spec: DatasetSpec, data: Any) -> Any:
    """Return the data of the selected split; an object without splits has one, under any name."""
    wanted, only = spec.split, spec.options["only_split"]
    if is_split_mapping(data):
        names = [str(name) for name in data if name != "name"]
        if wanted not in names and len(names) == 1 and wanted == only:
            (wanted,) = names
        if wanted not in names:
            raise DataError(
                "{name} has no split {wanted!r}.",
                advice="Available: {known}. {accepted}",
                name=spec.name,
                wanted=wanted,
                known=", ".join(names) or "none",
                accepted=ACCEPTED,
            )
        return data[wanted]
    if wanted != only:
        raise DataError(
            "{name} is a single object and has no split {split!r}.",
            advice='Pass all splits that the task reads: {{"{split}": ..., "{own}": ...}}.',
            name=spec.name,
            split=wanted,
            own=only,
        )
    return data
