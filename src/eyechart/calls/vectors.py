"""Vectors and targets of a caller as what the tasks score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eyechart.datasets.objects.lists import check_no_matrix, texts_of
from eyechart.errors import DataError, UsageError
from eyechart.manifest import Entry
from eyechart.metrics.vectors import Vectors, unit
from eyechart.tasks.encoded import that_say_something
from eyechart.tasks.prompts import class_vectors
from eyechart.tasks.retrieval.caption_search import RetrievalPrediction
from eyechart.tasks.zeroshot_classification import ClassificationPrediction
from eyechart.types import DatasetInfo, Notice

Ints = NDArray[np.int64]
SOURCE = "vectors of the caller"


def class_prediction(
    name: str,
    image_vectors: Any,
    class_texts: Any,
    labels: Any,
    classnames: Sequence[str] | None,
    ids: Sequence[str] | None,
    logits: tuple[float | None, float | None] = (None, None),
) -> ClassificationPrediction:
    """Put images and classes together; several vectors of a class are averaged as those of several prompts."""
    images, seen = _units("image_vectors", image_vectors, 2)
    raw = _numbers("text_vectors", class_texts)
    prompts = raw.shape[1] if raw.ndim == 3 else 1
    texts, read = _units("text_vectors", raw.reshape(-1, raw.shape[-1]) if raw.ndim == 3 else raw, 2)
    _check_sizes(images, texts)
    count = len(texts) // prompts
    names = tuple(map(str, range(count))) if classnames is None else texts_of("classnames", classnames)
    _check_length("classnames", names, count, "classes in text_vectors")
    check_no_matrix(labels)
    targets = _listed("labels", labels)
    _check_length("labels", targets, len(images), "image_vectors")
    several = any(isinstance(target, list | tuple) for target in targets)
    entries = tuple(
        Entry(key, None, _classes(target, count, key), (), {})
        if several
        else Entry(key, _class(target, count, key), (), (), {})
        for key, target in zip(_ids(ids, len(images)), targets, strict=True)
    )
    info = DatasetInfo(name, "multilabel" if several else "classification", classnames=names, source=SOURCE)
    classes = class_vectors(texts, [[""] * prompts] * count)
    return ClassificationPrediction(info, entries, (), images, classes, (*seen, *read), *logits)


def pair_prediction(
    name: str,
    image_vectors: Any,
    text_vectors: Any,
    pairs: Any,
    captions: Sequence[str] | None,
    ids: Sequence[str] | None,
) -> RetrievalPrediction:
    """Put images and their texts together, image after image."""
    images, seen = _units("image_vectors", image_vectors, 2)
    texts, read = _units("text_vectors", text_vectors, 2)
    _check_sizes(images, texts)
    words = [f"text {i}" for i in range(len(texts))] if captions is None else list(map(str, captions))
    _check_length("captions", words, len(texts), "text_vectors")
    owner = _owners(pairs, len(images), len(texts))
    order = np.argsort(owner, kind="stable")
    of_image: list[list[str]] = [[] for _ in images]
    for text in order:
        of_image[owner[text]].append(words[text])
    entries = tuple(
        Entry(key, None, (), tuple(own), {}) for key, own in zip(_ids(ids, len(images)), of_image, strict=True)
    )
    info = DatasetInfo(name, "retrieval", source=SOURCE)
    asked = np.arange(len(images))
    return RetrievalPrediction(info, entries, (), images, texts[order], owner[order], asked, (*seen, *read))


def _owners(pairs: Any, images: int, texts: int) -> Ints:
    """Return the image of each text, from a list of those or from pairs (image, text)."""
    try:
        array = np.asarray(_listed("pairs", pairs))
        whole = array.astype(np.int64) if array.size else np.empty(0, np.int64)
    except (TypeError, ValueError):
        array, whole = np.empty((0, 0, 0)), np.empty(0, np.int64)
    if array.ndim not in (1, 2) or (array.ndim == 2 and array.shape[1] != 2) or not np.array_equal(array, whole):
        raise UsageError(
            "pairs are no whole numbers.", advice="Give for each text the number of its image, or pairs (image, text)."
        )
    if array.ndim == 1:
        _check_length("pairs", whole, texts, "text_vectors")
        whole = np.stack([whole, np.arange(texts)], axis=1)
    for column, (what, count) in enumerate((("image", images), ("text", texts))):
        wrong = whole[(whole[:, column] < 0) | (whole[:, column] >= count), column]
        if len(wrong):
            raise DataError(f"pairs name the {what} {wrong[0]}, but there are {count} (0 to {count - 1}).")
    uses = np.bincount(whole[:, 1], minlength=texts)
    if (uses != 1).any():
        text = int(np.flatnonzero(uses != 1)[0])
        raise DataError(
            f"The text {text} belongs to {uses[text]} images.", advice="Each text belongs to one image: leave it out."
        )
    without = np.setdiff1d(np.arange(images), whole[:, 0])
    if len(without):
        raise DataError(f"The image {without[0]} has no text.", advice="Give it at least one, or leave the image out.")
    owner = np.empty(texts, np.int64)
    owner[whole[:, 1]] = whole[:, 0]
    return owner


def _numbers(name: str, given: Any) -> Vectors:
    """Make an array of whatever holds rows of numbers."""
    rows = given.detach().float().cpu().numpy() if hasattr(given, "detach") else given
    if isinstance(rows, list | tuple) and rows and all(hasattr(row, "detach") for row in rows):
        rows = [row.detach().float().cpu().numpy() for row in rows]
    try:
        if np.iscomplexobj(rows):
            raise TypeError("complex numbers")
        array = np.asarray(rows, np.float32)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{name} is no array of numbers ({error}).") from error
    if array.ndim < 2 or array.ndim > 3 or not array.size:
        raise UsageError(f"{name} has the shape {array.shape}.", advice="It has one row per item: (n, dimensions).")
    if not np.isfinite(array).all():
        bad = int((~np.isfinite(array).all(axis=-1)).sum())
        raise DataError(f"{name}: {bad} vectors hold NaN or infinite values.", advice="Check how they were computed.")
    return array


def _units(name: str, given: Any, axes: int) -> tuple[Vectors, tuple[Notice, ...]]:
    array = _numbers(name, given)
    if array.ndim != axes:
        raise UsageError(f"{name} has the shape {array.shape}.", advice="It has one row per item: (n, dimensions).")
    return that_say_something(unit(array), name.removesuffix("_vectors") + "s", range(len(array)))


def _check_sizes(images: Vectors, texts: Vectors) -> None:
    if images.shape[1] != texts.shape[1]:
        raise UsageError(
            f"image_vectors have {images.shape[1]} dimensions and text_vectors {texts.shape[1]}.",
            advice="Vectors are compared with each other: they must be of one model.",
        )


def _check_length(name: str, values: Any, count: int, what: str) -> None:
    if len(values) != count:
        raise UsageError(f"{len(values)} {name} for {count} {what}.")


def _ids(given: Sequence[str] | None, count: int) -> list[str]:
    names = list(map(str, range(count) if given is None else given))
    _check_length("ids", names, count, "image_vectors")
    if len(set(names)) < count:
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise DataError(f"The id {twice!r} occurs twice.", advice="Ids name images in records and comparisons.")
    return names


def _listed(name: str, values: Any) -> list[Any]:
    if isinstance(values, str | Mapping | Set) or not hasattr(values, "__iter__"):
        raise UsageError(f"{name} is no list.")
    return list(values.tolist() if hasattr(values, "tolist") else values)


def _classes(labels: Any, count: int, key: str) -> tuple[int, ...]:
    if not isinstance(labels, list | tuple):
        raise UsageError(f"Image {key} has a label, others a list of labels.", advice="Give a list for each.")
    found = tuple(_class(one, count, key) for one in labels)
    if len(set(found)) < len(found):
        raise DataError(f"The labels {labels!r:.60} of image {key} name a class twice.")
    return found


def _class(label: Any, count: int, key: str) -> int:
    value = label.item() if prod(getattr(label, "shape", (0,))) == 1 else label
    if isinstance(value, bool) or not isinstance(value, int):
        raise UsageError(f"The label {label!r:.60} of image {key} is no number of a class.")
    if not 0 <= value < count:
        raise DataError(f"Image {key} has the label {value}, but there are {count} classes (0 to {count - 1}).")
    return value
