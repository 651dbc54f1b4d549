"""Lists of images with labels or captions: ``{"images": [...], "labels": [...], "classnames": [...]}``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from eyechart.datasets.objects.table import ObjectRow, ObjectRows
from eyechart.errors import DataError, unknown_name

TARGETS = ("labels", "captions")
FIELDS = frozenset({"images", *TARGETS})
"""What tells lists from a mapping of splits."""
KNOWN = ("name", "images", *TARGETS, "classnames", "templates", "ids", "meta")


def read_lists(name: str, data: Mapping[str, Any]) -> ObjectRows:
    """Check the lists against each other."""
    for key in data:
        if key not in KNOWN:
            raise unknown_name("list of a dataset", str(key), KNOWN)
    targets = [key for key in TARGETS if data.get(key) is not None]
    if "images" not in data or len(targets) != 1:
        given = ", ".join(map(str, data))
        raise DataError(f"{name} has {given}.", advice="It needs images, and either labels or captions.")
    target = targets[0]
    columns = {key: _listed(data[key]) for key in ("images", target, "ids") if data.get(key) is not None}
    meta = {str(key): _listed(values) for key, values in dict(data.get("meta") or {}).items()}
    for key, values in (*columns.items(), *meta.items()):
        if len(values) != len(columns["images"]):
            raise DataError(f"{name}: {len(columns['images'])} images, but {len(values)} {key}.")

    def rows() -> Iterator[ObjectRow]:
        for i, (image, value) in enumerate(zip(columns["images"], columns[target], strict=True)):
            own = {key: values[i] for key, values in meta.items()}
            yield ObjectRow(image, value, own, str(columns["ids"][i]) if "ids" in columns else "")

    templates = _texts(data.get("templates"))
    if target == "captions":
        return ObjectRows("retrieval", rows, templates=templates)
    labels = columns[target]
    several = bool(labels) and isinstance(labels[0], list | tuple)
    first = next((label for row in labels for label in (row if several else (row,))), 0)
    by_name = isinstance(first, str)
    classnames = _texts(data.get("classnames"))
    if by_name and not classnames:
        found = {label for row in labels for label in (row if several else (row,))}
        classnames = tuple(sorted(map(str, found)))
    return ObjectRows("multilabel" if several else "classification", rows, classnames, templates, by_name)


def _listed(values: Any) -> Any:
    """Make a list of an array or tensor of numbers; images in one array stay as they are."""
    if hasattr(values, "tolist") and values.ndim < 3:
        return values.tolist()
    return values if hasattr(values, "__len__") and not isinstance(values, str) else list(values)


def _texts(values: Any) -> tuple[str, ...]:
    return (values,) if isinstance(values, str) else tuple(map(str, values if values is not None else ()))
