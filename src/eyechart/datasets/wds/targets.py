"""What a sample of a webdataset says besides its image: a label, several labels, captions, columns of metadata."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from eyechart.datasets.classes import ClassTexts
from eyechart.datasets.wds.shard_index import Fields
from eyechart.datasets.wds.tarshard import MakeSample
from eyechart.errors import DataError
from eyechart.io.media import ImageRef
from eyechart.io.untrusted import MAX_LINE, split_lines
from eyechart.languages import MAIN, find_same, is_main
from eyechart.types import DatasetSpec, Kind, Sample


def target_maker(kind: Kind, spec: DatasetSpec, n_classes: int) -> MakeSample:
    """Return the function that makes samples of a kind.

    The catalogue may say that ``.npy`` holds columns of metadata (WILDS, fairness sets) and that one of them, the
    objective, is the label; and in which language captions without a language in their name are (MUGE's are Chinese).
    """
    source = spec.options.get("source", {})
    if kind == "retrieval":
        return partial(_with_captions, language=spec.language, plain=source.get("plain_language", MAIN))
    if kind == "multilabel":
        return partial(_with_labels, n_classes=n_classes)
    if source.get("columns"):
        return partial(_with_columns, columns=tuple(source["columns"]), objective=source.get("objective"))
    return _with_label


def objective_texts(texts: ClassTexts, spec: DatasetSpec) -> ClassTexts:
    """Keep the class names and templates of one objective, which are written as ``objective:text``."""
    objective = spec.options.get("source", {}).get("objective")
    if not objective:
        return texts
    prefix = f"{objective}:"
    return replace(
        texts,
        classnames=tuple(name.removeprefix(prefix) for name in texts.classnames if name.startswith(prefix)),
        templates=tuple(text.removeprefix(prefix) for text in texts.templates if text.startswith(prefix)),
    )


def _with_label(name: str, image: ImageRef, fields: Fields) -> Sample:
    return Sample(name, image, label=_label(image, fields))


def _label(image: ImageRef, fields: Fields) -> int:
    if "cls" not in fields:
        raise DataError(f"{image.source}: the sample has no .cls member.", advice="Its label goes there.")
    try:
        return int(fields["cls"].decode("ascii").strip())
    except ValueError as error:
        raise DataError(f"{image.source}: the label {fields['cls'][:20]!r} is not a number.") from error


def _with_columns(
    name: str, image: ImageRef, fields: Fields, *, columns: tuple[str, ...], objective: str | None
) -> Sample:
    values = _vector(image, fields, "Its metadata goes there.")
    if len(values) != len(columns):
        raise DataError(f"{image.source}: its .npy has {len(values)} values for {len(columns)} columns.")
    meta: Mapping[str, Any] = {column: value.item() for column, value in zip(columns, values, strict=True)}
    return Sample(
        name, image, label=_objective(image, meta[objective]) if objective else _label(image, fields), meta=meta
    )


def _objective(image: ImageRef, value: Any) -> int:
    try:
        label = int(value)
    except (TypeError, ValueError, OverflowError) as error:  # NaN and infinity are no class either
        raise DataError(f"{image.source}: the label {str(value)[:20]} is not a number.") from error
    if label != value:
        raise DataError(f"{image.source}: the label {str(value)[:20]} is not a whole number.")
    return label


def _with_labels(name: str, image: ImageRef, fields: Fields, *, n_classes: int) -> Sample:
    vector = _vector(image, fields, "Its labels go there.")
    if len(vector) != n_classes:
        raise DataError(
            f"{image.source}: its .npy has {len(vector)} values for {n_classes} classes.",
            advice="The class list does not fit the labels: check classnames.txt.",
        )
    if not np.isin(vector, (0, 1)).all():
        raise DataError(f"{image.source}: its .npy must be a vector of zeros and ones.")
    return Sample(name, image, labels=tuple(int(i) for i in np.flatnonzero(vector)))


def _vector(image: ImageRef, fields: Fields, advice: str) -> np.ndarray:
    if "npy" not in fields:
        raise DataError(f"{image.source}: the sample has no .npy member.", advice=advice)
    try:
        vector = np.load(io.BytesIO(fields["npy"]), allow_pickle=False)
    except (ValueError, EOFError, OSError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
        # The header is Python text that numpy parses, and may claim any size.
        raise DataError(f"{image.source}: cannot read its .npy ({error}).") from error
    if not isinstance(vector, np.ndarray) or vector.ndim != 1:
        raise DataError(f"{image.source}: its .npy must be a vector of zeros and ones.")
    return vector


def _with_captions(name: str, image: ImageRef, fields: Fields, *, language: str, plain: str) -> Sample:
    member = _caption_member(fields, language, plain)
    if member is None:
        other = sorted(field for field in fields if field.endswith("txt"))
        wanted = "txt" if is_main(language) else f"{language}.txt"
        advice = f"It has {', '.join(other)}: choose another --language." if other else "Its captions go there."
        raise DataError(f"{image.source}: the sample has no .{wanted} member.", advice=advice)
    if len(fields[member]) > MAX_LINE:
        raise DataError(f"{image.source}: its captions have {len(fields[member])} bytes, more than {MAX_LINE}.")
    try:
        text = fields[member].decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{image.source}: its captions are not UTF-8 ({error.reason}).") from error
    if "\0" in text:
        raise DataError(f"{image.source}: its captions hold zero bytes.", advice="The archive is damaged.")
    return Sample(name, image, texts=tuple(split_lines(text)))


def _caption_member(fields: Fields, language: str, plain: str) -> str | None:
    """Find the captions in a language: ``txt`` is in the plain one, ``de.txt`` German, under any code for it."""
    if find_same(language, [plain]) and "txt" in fields:
        return "txt"
    spelling = find_same(language, [field.removesuffix(".txt") for field in fields if field.endswith(".txt")])
    return None if spelling is None else f"{spelling}.txt"
