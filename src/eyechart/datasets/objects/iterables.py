"""Datasets of torch and their like: items ``(image, label)`` or ``(image, captions)``, by number or one by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from eyechart.datasets.objects.table import ObjectRow, ObjectRows
from eyechart.datasets.table_columns import TableColumns
from eyechart.errors import DataError

IMAGES, LABELS, CAPTIONS = ("image", "img", "jpg", "png"), ("label", "target", "cls"), ("captions", "caption", "text")
"""Usual keys of items that are dicts."""


def read_iterable(name: str, data: Any, columns: TableColumns, *, classnames: Sequence[str] = ()) -> ObjectRows:
    """Look at the first item to find out what the others are.

    Args:
        name: What the dataset is called.
        data: Something with ``__len__`` and ``__getitem__``, or that can be iterated over again and again.
        columns: Keys of image, label or captions, in items that are dicts; by default the usual ones.
        classnames: Names of the classes; by default the ``classes`` of the dataset.
    """
    if hasattr(data, "to_dict") and hasattr(data, "columns"):  # a table of pandas, whose items are its columns
        data = data.to_dict("records")
    if not hasattr(data, "__len__") and iter(data) is iter(data):
        raise DataError(f"{name} can be read only once.", advice="Make a list of it: data are read more than once.")
    first = next(_items(data), None)
    if first is None:
        raise DataError(f"{name} is empty.")
    if isinstance(first, Mapping):
        keys: tuple[Any, Any] = (
            _key(name, first, columns.image, IMAGES),
            _key(name, first, columns.label or "".join(columns.captions[:1]), (*LABELS, *CAPTIONS)),
        )
    elif isinstance(first, list | tuple) and len(first) >= 2:
        keys = (0, 1)
    else:
        raise DataError(
            f"{name} gives {type(first).__name__} objects.", advice="An item is (image, label) or (image, captions)."
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
    """Tell whether it is an item, and not a dataset: a pair, or a dict with an image in it."""
    if isinstance(thing, Mapping):
        return any(key in thing for key in IMAGES)
    return isinstance(thing, list | tuple) and not (thing and isinstance(thing[0], list | tuple))


def _items(data: Any) -> Iterator[Any]:
    """Yield the items; a dataset with numbers may have no end for whoever only iterates."""
    if hasattr(data, "__len__") and hasattr(data, "__getitem__"):
        return (data[i] for i in range(len(data)))
    return iter(data)


def _key(name: str, item: Mapping[str, Any], wanted: str, usual: Sequence[str]) -> str:
    found = wanted or next((key for key in usual if key in item), None)
    if found not in item:
        raise DataError(
            f"{name}: its items have {', '.join(map(str, item))}.",
            advice="Say which is what: image_column=..., label_column=... or caption_column=...",
        )
    return str(found)


def _classes(name: str, data: Any) -> tuple[str, ...]:
    """Return the names of the classes, of a part of a dataset those of the whole."""
    names = getattr(data, "classes", None)
    inner = getattr(data, "dataset", None)
    if names is None and inner is not None:
        return _classes(name, inner)
    if names is None:
        raise DataError(f"{name} does not name its classes.", advice="Give classnames=[...], in the order of labels.")
    return tuple(str(one[0] if isinstance(one, list | tuple) else one) for one in names)
