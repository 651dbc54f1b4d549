"""Text classifiers as files: one unit vector per class, as safetensors (``--save_clf``, ``--load_clfs``)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from eyechart.errors import DataError, UsageError
from eyechart.io.files import write_atomic
from eyechart.io.names import shown
from eyechart.io.untrusted import parse_json
from eyechart.metrics.vectors import Vectors, unit
from eyechart.types import Notice

_KEY = "classifier"


def check_exists(path: Path) -> None:
    """Refuse a classifier file that is not there."""
    if not path.is_file():
        raise UsageError(
            f"There is no classifier file {path}.", advice="--load_clfs takes files written by --save_clf."
        )


def save(classes: Vectors, path: Path, model: str, classnames: Sequence[str]) -> None:
    """Write the class vectors, shape (classes, dim), and whose they are: a model's fingerprint, names of classes."""
    from safetensors.numpy import save as to_bytes

    known = {"model": model, "classnames": json.dumps(list(classnames))}
    write_atomic(path, to_bytes({_KEY: np.ascontiguousarray(classes)}, known))


def load_mean(paths: Sequence[Path], model: str, classnames: Sequence[str]) -> tuple[Vectors, tuple[Notice, ...]]:
    """Read classifiers, average them and renormalise; say if they are those of another model.

    Raises:
        DataError: If a file is no classifier, has another number of classes, or the same classes in another order.
    """
    from safetensors import SafetensorError, safe_open

    loaded: list[Vectors] = []
    strange: list[Path] = []
    for path in paths:
        try:
            with safe_open(path, framework="np") as file:
                vectors, known = file.get_tensor(_KEY), file.metadata() or {}
            names = [str(name) for name in parse_json(known.get("classnames", "[]"))]
        except (OSError, SafetensorError, ValueError, TypeError) as error:
            raise DataError(f"{path} is not a classifier file ({error}).") from error
        if vectors.ndim != 2 or len(vectors) != len(classnames) or (loaded and vectors.shape != loaded[0].shape):
            raise DataError(f"{path} has shape {vectors.shape}, which does not fit {len(classnames)} classes.")
        if names != list(classnames) and sorted(names) == sorted(classnames):
            raise DataError(f"{path} has the same classes in another order.", advice="Write it anew with --save_clf.")
        if known.get("model", model) != model:
            strange.append(path)
        loaded.append(unit(vectors))
    text = (
        f"{len(strange)} classifiers were written with another model, such as {shown(strange[0])}." if strange else ""
    )
    notices = (Notice("classifier_of_another_model", len(strange), text),) if strange else ()
    return unit(np.mean(loaded, axis=0, dtype=np.float32)), notices
