"""The paired check: how far the vectors of a faster way are from those of plain float32, on the same images.

A way that may round otherwise (half precision, TF32, another layout, compilation) is taken only if somebody asked for
it. The first images are then encoded twice, and the result says what the way changed. It is done once for each model
and way on a machine, and remembered; a model of which there is no room for a second copy is not compared.
"""

from __future__ import annotations

import copy
import json
import os
import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eyechart.errors import OutOfMemoryError
from eyechart.io.files import cache_root, write_cached
from eyechart.models.towers.device_options import DeviceWays
from eyechart.types import OBJECT, ModelCard, ModelSpec, Notice, digest_json

if TYPE_CHECKING:
    import torch

Vectors = NDArray[np.float32]
Encode = Callable[[Any], Vectors]

IMAGES = 64
"""How many are encoded twice."""
LARGEST = 1_000_000_000
"""Parameters of a model of which a second copy is made for this: four gigabytes in float32."""
RECAST = ("fp16", "bf16")
"""Precisions in which the weights themselves are rounded."""


@dataclass(frozen=True)
class Pairs:
    """What was measured."""

    way: str
    images: int
    mean: float
    """Mean cosine of the two vectors of an image."""
    lowest: float
    changed: int
    """Images whose nearest other image is another one."""
    same: bool
    """Whether the vectors agree in every bit."""

    @property
    def message(self) -> str:
        """Say it in one line."""
        start = f"{self.way}, compared with plain fp32 on the first {self.images} images"
        if self.same:
            return f"{start}: the same vectors, bit for bit."
        cosines = f"cosine {_cosine(self.mean)} on average, {_cosine(self.lowest)} at least"
        return f"{start}: {cosines}; the nearest other image changed for {self.changed}."


def measure(way: str, plain: Vectors, other: Vectors) -> Pairs:
    """Compare the vectors of the same images, computed in two ways."""
    a, b = _unit(plain), _unit(other)
    cosines = np.einsum("ij,ij->i", a, b)
    near, found = a @ a.T, b @ b.T
    np.fill_diagonal(near, -np.inf)
    np.fill_diagonal(found, -np.inf)
    rows = np.arange(len(a))
    # Of several images that are equally near, any one may be found.
    changed = near[rows, found.argmax(axis=1)] < near.max(axis=1)
    return Pairs(
        way,
        len(a),
        mean=float(cosines.mean()),
        lowest=float(cosines.min()),
        changed=int(changed.sum()),
        same=bool(np.array_equal(plain, other)),
    )


class PairedCheck:
    """Takes the first images of a model with their vectors, and encodes them again in the plain way.

    Args:
        card: Of the model that is compared.
        way: What it does otherwise, in words.
        plain: Makes what encodes in the plain way, when it is needed.
    """

    def __init__(self, card: ModelCard, way: str, plain: Callable[[], Encode]) -> None:
        self.path, self.way = _path(card), way
        self._make: Callable[[], Encode] | None = plain
        self._encode: Encode | None = None
        self._pairs: list[tuple[Vectors, Vectors]] = []

    @property
    def due(self) -> bool:
        """Tell whether more images are wanted."""
        return self._make is not None

    def see(self, batch: Any, vectors: Vectors) -> None:
        """Encode images again; nothing happens to the vectors."""
        if self._make is None or not len(vectors):
            return
        left = IMAGES - sum(len(plain) for plain, _ in self._pairs)
        try:
            self._encode = self._encode or self._make()
            plain = np.array(self._encode(batch[:left]), np.float32)
        except (OutOfMemoryError, MemoryError):
            self._end()  # no room for two ways: not compared
            return
        self._pairs.append((plain, np.array(vectors[:left], np.float32)))
        found = measure(self.way, *(np.concatenate(side) for side in zip(*self._pairs, strict=True)))
        # Kept at once: the run may be over.
        known = _read(self.path)
        if known is None or known.images < found.images:
            write_cached(self.path, json.dumps(asdict(found)).encode())
        if found.images >= IMAGES:
            self._end()

    def _end(self) -> None:
        self._make = self._encode = None
        self._pairs = []


def is_due(card: ModelCard) -> bool:
    """Tell whether a model has not been compared on enough images yet, on this machine."""
    known = _read(_path(card))
    return known is None or known.images < IMAGES


def paired_notices(card: ModelCard) -> list[Notice]:
    """Say what was measured of a model, in this run or an earlier one."""
    known = _read(_path(card))
    return [] if known is None else [Notice("paired_check", 1, known.message)]


def plain_model(model: torch.nn.Module, spec: ModelSpec, ways: DeviceWays, parameters: int) -> torch.nn.Module | None:
    """Return the model to compare with: itself, if only the way of computing differs, else a copy.

    None if there is nothing to compare, or no room, or if the weights were rounded when they were loaded. A model that
    the caller handed over is taken as it is.
    """
    if (spec.precision == "fp32" and not ways.inexact) or spec.family == OBJECT:
        return None
    if {str(weight.dtype) for weight in model.parameters() if weight.is_floating_point()} != {"torch.float32"}:
        return None
    if spec.precision not in RECAST and not ways.channels_last:
        return model
    return copy.deepcopy(model).eval() if parameters <= LARGEST else None


def _unit(vectors: Vectors) -> NDArray[np.float64]:
    """Scale to unit length in float64: in float32 a cosine is known to seven digits only."""
    exact = vectors.astype(np.float64)
    exact[~np.isfinite(exact).all(axis=1)] = 0  # too large for half precision: like nothing
    lengths = np.linalg.norm(exact, axis=1, keepdims=True)
    return exact / np.where(lengths > 0, lengths, 1)


def _cosine(value: float) -> str:
    """Write a cosine that is all but 1 by how little it is less."""
    return f"{value:.6f}" if not 0 < 1 - value < 1e-6 else f"1 - {1 - value:.0e}"


def _path(card: ModelCard) -> Path:
    # Known without importing torch: a run that finds all its vectors in the store says it, too.
    machine = [platform.machine(), platform.processor(), os.cpu_count()]
    return cache_root() / "calibration" / f"{digest_json(['paired', card.fingerprint, machine])}.json"


def _read(path: Path) -> Pairs | None:
    if not path.is_file():
        return None
    try:
        return Pairs(**json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError):
        # Not written by this version: measured again.
        return None
