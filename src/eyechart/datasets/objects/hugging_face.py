"""Datasets of Hugging Face: their features say which column is the image, the label, or the captions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from eyechart.datasets.objects.table import ObjectRow, ObjectRows
from eyechart.datasets.table_columns import CAPTIONS, TableColumns
from eyechart.errors import DataError, unknown_name
from eyechart.types import Kind

PLAIN = (str, int, float, bool)
"""What a further column may hold to become metadata of its sample."""


def read_hugging_face(name: str, data: Any, columns: TableColumns, read_as: str = "") -> ObjectRows:
    """Choose the columns and read rows; images stay as they were saved, and no transform is applied.

    Args:
        name: What the dataset is called.
        data: A Dataset or IterableDataset.
        columns: Those that the caller names. By default the only column of images; the only one of class labels, or
            without one the only one of texts, which are captions.
        read_as: What the task reads: class labels, or captions although there are labels.
    """
    from datasets import Image

    features: Mapping[str, Any] | None = data.features
    if features is None:
        raise DataError(f"{name} does not say what is in its columns.", advice="Give it features.")
    for column in sorted(columns.used):
        if column not in features:
            raise unknown_name(f"column of {name}", column, features)
    found = [key for key, kind in features.items() if _is(kind, "Image")]
    image = columns.image or _only(name, found, "images", "image")
    chosen = _with_target(name, features, replace(columns, image=image), read_as)
    raw = data.with_format(None).cast_column(image, Image(decode=False))

    def rows() -> Iterator[ObjectRow]:
        for row in raw:
            meta = {key: row[key] for key in row if key not in chosen.used and isinstance(row[key], PLAIN)}
            target = row[chosen.label] if chosen.label else list(_texts(row, chosen.captions))
            yield ObjectRow(row[image], target, meta, str(row[chosen.id]) if chosen.id else "")

    if chosen.captions:
        return ObjectRows("retrieval", rows)
    target, feature = chosen.label, _inner(features[chosen.label])
    several = feature is not features[target]
    kind: Kind = "multilabel" if several else "classification"
    names = getattr(feature, "names", None)
    if names is None and getattr(feature, "dtype", "") == "string":
        texts = {text for row in raw.select_columns([target]) for text in _texts(row, (target,))}
        return ObjectRows(kind, rows, tuple(sorted(texts)), by_name=True)
    return ObjectRows(kind, rows, tuple(names or ()))


def _texts(row: Mapping[str, Any], columns: Sequence[str]) -> Iterator[Any]:
    """Yield what stands in some columns, one text or several in each."""
    for column in columns:
        yield from row[column] if isinstance(row[column], list) else (row[column],)


def _with_target(name: str, features: Mapping[str, Any], columns: TableColumns, read_as: str) -> TableColumns:
    """Find the column of labels or captions where none is named."""
    if columns.label or columns.captions:
        return columns
    labels = [key for key, kind in features.items() if _is(_inner(kind), "ClassLabel")]
    if labels and read_as != CAPTIONS:
        return replace(columns, label=_only(name, labels, "labels", "label"))
    texts = [key for key, kind in features.items() if getattr(_inner(kind), "dtype", "") == "string"]
    texts = [key for key in texts if key != columns.id]
    return replace(columns, captions=(_only(name, texts, "class labels or captions", "label_column=... or caption"),))


def _only(name: str, columns: Sequence[str], what: str, argument: str) -> str:
    if len(columns) == 1:
        return columns[0]
    found = f"several columns of {what}: {', '.join(columns)}" if columns else f"no column of {what}"
    raise DataError(f"{name} has {found}.", advice=f"Say which one is meant: {argument}_column=...")


def _is(kind: Any, name: str) -> bool:
    return type(kind).__name__ == name


def _inner(kind: Any) -> Any:
    """Return the feature inside a list."""
    inner = kind[0] if isinstance(kind, list) and kind else getattr(kind, "feature", kind)
    return kind if isinstance(inner, dict) else inner
