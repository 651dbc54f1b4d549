"""Lists of images with labels or captions: ``{"images": [...], "labels": [...], "classnames": [...]}``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from pathlib import Path
from typing import Any

from eyechart.datasets.objects.table import ObjectRow, ObjectRows
from eyechart.errors import DataError, UsageError, unknown_name

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
    check_no_matrix(data.get("labels"))
    columns = {key: _listed(data[key]) for key in ("images", target, "ids") if data.get(key) is not None}
    meta = {str(key): _listed(values) for key, values in dict(data.get("meta") or {}).items()}
    for key, values in (*columns.items(), *meta.items()):
        if len(values) != len(columns["images"]):
            raise DataError(f"{name}: {len(columns['images'])} images, but {len(values)} {key}.")

    def rows() -> Iterator[ObjectRow]:
        for i, (image, value) in enumerate(zip(columns["images"], columns[target], strict=True)):
            own = {key: values[i] for key, values in meta.items()}
            yield ObjectRow(image, value, own, str(columns["ids"][i]) if "ids" in columns else "")

    templates = texts_of("templates", data.get("templates"))
    if target == "captions":
        return ObjectRows("retrieval", rows, templates=templates)
    return _with_labels(name, rows, columns[target], texts_of("classnames", data.get("classnames")), templates)


def _with_labels(
    name: str,
    rows: Callable[[], Iterator[ObjectRow]],
    labels: Any,
    classnames: tuple[str, ...],
    templates: tuple[str, ...],
) -> ObjectRows:
    """Find out whether images have one label or several, and whether labels are names."""
    several = bool(labels) and isinstance(labels[0], list | tuple)
    if any(isinstance(label, list | tuple) is not several for label in labels):
        raise DataError(f"{name}: some images have a list of labels, others a label.", advice="Give a list for each.")
    each = [label for row in labels for label in (row if several else (row,))]
    by_name = bool(each) and isinstance(each[0], str)
    if by_name and not classnames:
        classnames = tuple(sorted({str(label) for label in each}))
    return ObjectRows("multilabel" if several else "classification", rows, classnames, templates, by_name)


def texts_of(what: str, values: Any) -> tuple[str, ...]:
    """Make a tuple of one text or several.

    Raises:
        UsageError: If they have no order (a set), or their order is not that of their numbers (a dict).
    """
    if isinstance(values, Mapping | Set):
        kind = type(values).__name__
        raise UsageError(f"{what} is a {kind}, where a list is meant.", advice="Its order is that of the labels.")
    return (values,) if isinstance(values, str) else tuple(map(str, () if values is None else values))


def check_no_matrix(labels: Any) -> None:
    """Refuse a matrix of ones and zeros, which read as numbers of classes would be other labels.

    Raises:
        UsageError: If labels are an array of more than one axis.
    """
    if getattr(labels, "ndim", 1) > 1:
        raise UsageError(
            f"labels is an array of shape {tuple(labels.shape)}.",
            advice="A label is the number of a class: labels.argmax(1) if each row has one 1; a list of numbers for "
            "each image if it has several classes.",
        )


def _listed(values: Any) -> Any:
    """Make a list of an array or tensor of numbers; images in one array stay as they are."""
    if isinstance(values, str | Path):
        return [values]
    if hasattr(values, "tolist") and values.ndim < 3:
        return values.tolist()
    return values if hasattr(values, "__len__") else list(values)
