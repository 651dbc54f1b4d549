"""Text classifiers: one vector per class, from names and templates or from files (`--save-clf`, `--load-clfs`)."""

import io
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eyechart.errors import DataError, import_extra
from eyechart.io.files import shown, write_atomic
from eyechart.io.safe_parse import parse_json
from eyechart.metrics.vectors import Vectors, mean_of_units, unit
from eyechart.models.towers.checkpoints import load_errors
from eyechart.tasks.base import counted
from eyechart.types import DatasetInfo, Notice

PLACEHOLDERS = ("{c}", "{}")


def fill(template: str, classname: str) -> str:
    """Insert a class name into a template by plain replacement; templates are never evaluated."""
    for placeholder in PLACEHOLDERS:
        if placeholder in template:
            return template.replace(placeholder, classname)
    raise DataError(
        "The template {pattern!r} has no {{c}}.", advice="Write {{c}} where the class name goes.", pattern=template
    )


def check_template(template: str, source: str) -> None:
    """Reject a template without ``{c}`` or with stray braces."""
    if not any(placeholder in template for placeholder in PLACEHOLDERS):
        raise DataError(
            "{source}: the template {pattern!r} has no {{c}}.",
            advice="Write {{c}} where the class name goes.",
            source=source,
            pattern=template,
        )
    rest = template
    for placeholder in PLACEHOLDERS:
        rest = rest.replace(placeholder, "")
    if "{" in rest or "}" in rest:
        raise DataError(
            "{source}: the template {pattern!r} has stray braces.",
            advice="Only {{c}} is replaced; remove the other braces.",
            source=source,
            pattern=template,
        )


def class_texts(info: DatasetInfo) -> list[tuple[str, ...]]:
    """Return the texts of each class: its own prompts if it has any, else every template with its name."""
    texts = []
    for name in info.classnames:
        own = info.class_prompts.get(name)
        if own is None and not info.templates:
            raise DataError(
                "{name}: there are no prompts for class {name2!r}.",
                advice="Provide templates (zeroshot_classification_templates.txt or {--custom_template_file}).",
                name=info.name,
                name2=name,
            )
        texts.append(own if own is not None else tuple(fill(template, name) for template in info.templates))
    return texts


def prompts_of(info: DatasetInfo) -> dict[str, Any]:
    """Return class names and templates for the details of a result."""
    return {"classnames": list(info.classnames), "templates": list(info.templates)}


def class_vectors(
    units: Vectors, texts: Sequence[Sequence[str]], normalize: Callable[[Vectors], Vectors] = unit
) -> Vectors:
    """Average the unit vectors of each class's texts and renormalise."""
    starts = np.array([0, *accumulate(map(len, texts))][:-1], np.int64)
    return mean_of_units(units, starts, normalize)


def merge_duplicates(info: DatasetInfo) -> tuple[DatasetInfo, NDArray[np.int64]]:
    """Merge classes with the same name; also return the new index of each old class."""
    names = tuple(dict.fromkeys(info.classnames))
    place = {name: i for i, name in enumerate(names)}
    return replace(info, classnames=names), np.array([place[name] for name in info.classnames], np.int64)


def duplicate_classes(info: DatasetInfo) -> tuple[Notice, ...]:
    """Count duplicate class names: only the first of each can be predicted."""
    twice = {name: count for name, count in Counter(info.classnames).items() if count > 1}
    return counted(
        "duplicate_classes",
        sum(twice.values()) - len(twice),
        "Duplicate class names: {shown}. Only the first of each can be right; {--merge_duplicate_classes} merges them.",
        shown=", ".join(f"{name!r} x{count}" for name, count in list(twice.items())[:5]),
    )


# Text classifiers as files: one vector per class (``--save_clf``, ``--load_clfs``).
#
# Eyechart's format is safetensors with the model's fingerprint and the class names. CLIP_benchmark's format is a bare
# torch tensor with one column per class. Both can be read; file names that end in .pt or .pth select the latter for
# writing.


_KEY = "classifier"
TORCH = (".pt", ".pth")
ZIP = b"PK\x03\x04"
"""First bytes of a file written by torch.save."""


def save_classifier(classes: Vectors, path: Path, model: str, classnames: Sequence[str]) -> None:
    """Write the class vectors, shape (classes, dim), with the model's fingerprint and the class names."""
    from safetensors.numpy import save as to_bytes

    if path.suffix in TORCH:
        save_torch_classifier(classes, path)
        return
    known = {"model": model, "classnames": json.dumps(list(classnames))}
    write_atomic(path, to_bytes({_KEY: np.ascontiguousarray(classes)}, known))


def save_torch_classifier(classes: Vectors, path: Path) -> None:
    """Write the class vectors in CLIP_benchmark's format."""
    torch, stream = import_extra("torch", "open-clip"), io.BytesIO()
    torch.save(torch.from_numpy(np.ascontiguousarray(classes.T)), stream)
    write_atomic(path, stream.getvalue())


def load_mean_classifier(
    paths: Sequence[Path], model: str, classnames: Sequence[str]
) -> tuple[Vectors, tuple[Notice, ...]]:
    """Read classifiers and average them, with a notice if they belong to another or an unknown model.

    As in CLIP_benchmark the mean is not renormalised: a class on which the classifiers disagree counts less.
    """
    read = [(path, *_read(path)) for path in paths]
    for path, vectors, known in read:
        names = known.get("classnames", [])
        if vectors.ndim != 2 or len(vectors) != len(classnames) or vectors.shape != read[0][1].shape:
            raise DataError(
                "{path} has shape {shape}, which does not match {n} classes.",
                path=path,
                shape=vectors.shape,
                n=len(classnames),
            )
        if names != list(classnames) and sorted(names) == sorted(classnames):
            raise DataError(
                "{path} has the same classes in a different order.",
                advice="Write it again with {--save_clf}.",
                path=path,
            )
    strange = [shown(path) for path, _, known in read if known.get("model", model) != model]
    unknown = [shown(path) for path, _, known in read if "model" not in known]
    other_model = "{n} classifiers were written with another model, such as {first}."
    unknown_model = "{n} classifiers do not record {n:its|their} model and classes, such as {first}."
    return np.mean([unit(vectors) for _, vectors, _ in read], axis=0, dtype=np.float32), (
        *counted("classifier_of_another_model", len(strange), other_model, first="".join(strange[:1])),
        *counted("classifier_of_unknown_model", len(unknown), unknown_model, first="".join(unknown[:1])),
    )


def _read(path: Path) -> tuple[Vectors, dict[str, Any]]:
    """Return the vectors of a file, one row per class, and its metadata."""
    from safetensors import SafetensorError, safe_open

    try:
        with path.open("rb") as stream:
            start = stream.read(len(ZIP))
        if start == ZIP:
            torch = import_extra("torch", "open-clip")
            with load_errors(str(path)):  # ``weights_only`` keeps the pickle from creating other objects
                columns = torch.load(path, map_location="cpu", weights_only=True)
            if not isinstance(columns, torch.Tensor) or columns.ndim != 2:
                raise DataError("{path} is not a classifier file: expected a two-dimensional tensor.", path=path)
            return columns.detach().float().numpy().T, {}  # it has one column per class
        with safe_open(path, framework="np") as file:
            vectors, known = file.get_tensor(_KEY), file.metadata() or {}
        names = [str(name) for name in parse_json(known.get("classnames", "[]"))]
    except (OSError, SafetensorError, ValueError, TypeError) as error:
        raise DataError("{path} is not a classifier file ({reason}).", path=path, reason=error) from error
    return vectors, {**known, "classnames": names}
