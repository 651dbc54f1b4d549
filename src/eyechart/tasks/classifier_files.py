"""Text classifiers as files: one unit vector per class, as safetensors (``--save_clf``, ``--load_clfs``)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from eyechart.errors import DataError, UsageError
from eyechart.io.files import write_atomic
from eyechart.metrics.vectors import Vectors, unit

_KEY = "classifier"


def check_exists(path: Path) -> None:
    """Refuse a classifier file that is not there."""
    if not path.is_file():
        raise UsageError(
            f"There is no classifier file {path}.", advice="--load_clfs takes files written by --save_clf."
        )


def save(classes: Vectors, path: Path) -> None:
    """Write the class vectors, shape (classes, dim)."""
    from safetensors.numpy import save as to_bytes

    write_atomic(path, to_bytes({_KEY: np.ascontiguousarray(classes)}))


def load_mean(paths: Sequence[Path], n_classes: int) -> Vectors:
    """Read classifiers, average them and renormalise."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    loaded: list[Vectors] = []
    for path in paths:
        try:
            vectors = load_file(path)[_KEY]
        except (OSError, SafetensorError, KeyError) as error:
            raise DataError(f"{path} is not a classifier file ({error}).") from error
        if vectors.ndim != 2 or len(vectors) != n_classes or (loaded and vectors.shape != loaded[0].shape):
            raise DataError(f"{path} has shape {vectors.shape}, which does not fit {n_classes} classes.")
        loaded.append(unit(vectors))
    return unit(np.mean(loaded, axis=0, dtype=np.float32))
