"""Text classifiers as files: one vector per class (``--save_clf``, ``--load_clfs``).

Ours are safetensors that say whose they are. CLIP_benchmark's are a torch tensor with one column per class and nothing
else; both are read, and names that end in .pt or .pth are written like that.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from eyechart.errors import DataError, UsageError, import_extra
from eyechart.io.files import write_atomic
from eyechart.io.names import shown
from eyechart.io.untrusted import parse_json
from eyechart.metrics.vectors import Vectors, unit
from eyechart.models.towers.checkpoints import LOAD_ERRORS, load_error
from eyechart.types import Notice

_KEY = "classifier"
TORCH = (".pt", ".pth")
ZIP = b"PK\x03\x04"
"""How a file of torch.save begins."""


def check_exists(path: Path) -> None:
    """Refuse a classifier file that is not there."""
    if not path.is_file():
        raise UsageError(
            f"There is no classifier file {path}.",
            advice="--load_clfs takes files written by --save_clf, ours or CLIP_benchmark's.",
        )


def save(classes: Vectors, path: Path, model: str, classnames: Sequence[str]) -> None:
    """Write the class vectors, shape (classes, dim), and whose they are: a model's fingerprint, names of classes."""
    from safetensors.numpy import save as to_bytes

    if path.suffix in TORCH:
        save_torch(classes, path)
        return
    known = {"model": model, "classnames": json.dumps(list(classnames))}
    write_atomic(path, to_bytes({_KEY: np.ascontiguousarray(classes)}, known))


def save_torch(classes: Vectors, path: Path) -> None:
    """Write the class vectors as CLIP_benchmark does."""
    torch = import_extra("torch", "open-clip")
    stream = io.BytesIO()
    torch.save(torch.from_numpy(np.ascontiguousarray(classes.T)), stream)
    write_atomic(path, stream.getvalue())


def load_mean(paths: Sequence[Path], model: str, classnames: Sequence[str]) -> tuple[Vectors, tuple[Notice, ...]]:
    """Read classifiers and average them; say if they are those of another model, or do not say whose they are.

    As in CLIP_benchmark the mean is not scaled to unit length again: a class on which classifiers differ counts less.

    Raises:
        DataError: If a file is no classifier, has another number of classes, or the same classes in another order.
    """
    loaded: list[Vectors] = []
    strange: list[Path] = []
    unknown: list[Path] = []
    for path in paths:
        vectors, known = _read(path)
        names = known.get("classnames", [])
        if vectors.ndim != 2 or len(vectors) != len(classnames) or (loaded and vectors.shape != loaded[0].shape):
            raise DataError(f"{path} has shape {vectors.shape}, which does not fit {len(classnames)} classes.")
        if names != list(classnames) and sorted(names) == sorted(classnames):
            raise DataError(f"{path} has the same classes in another order.", advice="Write it anew with --save_clf.")
        if "model" not in known:
            unknown.append(path)
        elif known["model"] != model:
            strange.append(path)
        loaded.append(unit(vectors))
    notices = []
    if strange:
        text = f"{len(strange)} classifiers were written with another model, such as {shown(strange[0])}."
        notices.append(Notice("classifier_of_another_model", len(strange), text))
    if unknown:
        text = (
            f"{len(unknown)} classifiers do not say which model and classes they are of, such as {shown(unknown[0])}."
        )
        notices.append(Notice("classifier_of_unknown_model", len(unknown), text))
    return np.mean(loaded, axis=0, dtype=np.float32), tuple(notices)


def _read(path: Path) -> tuple[Vectors, dict[str, Any]]:
    """Return the vectors of a file, one row per class, and what it says of itself."""
    try:
        with path.open("rb") as stream:
            start = stream.read(len(ZIP))
        return _read_torch(path) if start == ZIP else _read_safetensors(path)
    except OSError as error:
        raise DataError(f"{path} is not a classifier file ({error}).") from error


def _read_safetensors(path: Path) -> tuple[Vectors, dict[str, Any]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as file:
            vectors, known = file.get_tensor(_KEY), file.metadata() or {}
        names = [str(name) for name in parse_json(known.get("classnames", "[]"))]
    except (SafetensorError, ValueError, TypeError) as error:
        raise DataError(f"{path} is not a classifier file ({error}).") from error
    return vectors, {**known, "classnames": names}


def _read_torch(path: Path) -> tuple[Vectors, dict[str, Any]]:
    """Read a tensor with one column per class; nothing else that a pickle may hold is made."""
    torch = import_extra("torch", "open-clip")
    try:
        columns = torch.load(path, map_location="cpu", weights_only=True)
    except LOAD_ERRORS as error:
        raise load_error(str(path), error) from error
    if not isinstance(columns, torch.Tensor) or columns.ndim != 2:
        raise DataError(f"{path} is not a classifier file: it holds no tensor of two dimensions.")
    return columns.detach().float().numpy().T, {}
