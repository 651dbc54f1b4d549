"""Datasets of Hugging Face: their features say which column is the image, the label, or the captions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from eyechart.datasets.objects.table import ObjectRow, ObjectRows
from eyechart.errors import DataError, unknown_name

PLAIN = (str, int, float, bool)
"""What a further column may hold to become metadata of its sample."""


def read_hugging_face(name: str, data: Any, image: str | None, label: str | None, caption: str | None) -> ObjectRows:
    """Choose the columns and read rows; images stay as they were saved, and no transform is applied.

    Args:
        name: What the dataset is called.
        data: A Dataset or IterableDataset.
        image: Column of images; by default the only one.
        label: Column of labels; by default the only one of class labels.
        caption: Column of captions; by default the only one of texts, if there are no class labels.
    """
    from datasets import Image

    features: Mapping[str, Any] | None = data.features
    if features is None:
        raise DataError(f"{name} does not say what is in its columns.", advice="Give it features.")
    for column in (image, label, caption):
        if column is not None and column not in features:
            raise unknown_name(f"column of {name}", column, features)
    image = image or _only(name, [key for key, kind in features.items() if _is(kind, "Image")], "images", "image")
    target, kind = _target(name, features, label, caption)
    raw = data.with_format(None).cast_column(image, Image(decode=False))

    def rows() -> Iterator[ObjectRow]:
        for row in raw:
            meta = {key: value for key, value in row.items() if key not in (image, target) and isinstance(value, PLAIN)}
            yield ObjectRow(row[image], row[target], meta)

    if kind == "retrieval":
        return ObjectRows("retrieval", rows)
    feature = _inner(features[target])
    names = getattr(feature, "names", None)
    several = feature is not features[target]
    if names is None and getattr(feature, "dtype", "") == "string":
        found = {text for row in raw.select_columns([target]) for text in (row[target] if several else (row[target],))}
        return ObjectRows("multilabel" if several else "classification", rows, tuple(sorted(found)), by_name=True)
    return ObjectRows("multilabel" if several else "classification", rows, tuple(names or ()))


def _target(name: str, features: Mapping[str, Any], label: str | None, caption: str | None) -> tuple[str, str]:
    """Return the column of labels or captions, and the kind of dataset that it makes."""
    if label and caption:
        raise DataError(f"{name}: labels or captions, which?", advice="Give label_column or caption_column, not both.")
    if caption:
        return caption, "retrieval"
    labels = [label] if label else [key for key, kind in features.items() if _is(_inner(kind), "ClassLabel")]
    if labels:
        return _only(name, labels, "labels", "label"), "classification"
    texts = [key for key, kind in features.items() if getattr(_inner(kind), "dtype", "") == "string"]
    return _only(name, texts, "labels or captions", "caption"), "retrieval"


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
