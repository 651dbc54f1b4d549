"""Opt-in compute options that may round differently, and a check of their effect.

None of these options of the torch families is a default:

===================  =================================================================================================
``channels_last``    ``true``: images in channels-last memory format, which speeds up convolutions on many GPUs
``tf32``             ``true``: float32 convolutions and matrix products in TF32, on GPUs that have it
``compile``          ``true`` or the name of a backend: `torch.compile` for both towers
===================  =================================================================================================

With one of them, or in half precision, the first images are encoded again in plain float32, and the result states how
far the vectors differ (`PrecisionCheck`). This is done once per model, set of options and machine, and cached; it is
skipped for a model too large for a second copy.
"""

from __future__ import annotations

import copy
import json
import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from eyechart.errors import OutOfMemoryError, unknown_name
from eyechart.io.files import cache_root, write_cached
from eyechart.messages import UserMessage
from eyechart.types import IN_MEMORY, ModelCard, ModelSpec, Notice, digest_json

if TYPE_CHECKING:
    import torch

T = TypeVar("T")
Vectors = NDArray[np.float32]
Encode = Callable[[Any], Vectors]

IMAGES = 64
"""Number of images encoded twice."""
LARGEST = 1_000_000_000
"""Largest number of parameters of a model that is copied: four gigabytes in float32."""
DEVICE_OPTIONS: Mapping[str, type] = MappingProxyType({"channels_last": bool, "tf32": bool})
"""Options shared by the torch families; ``compile`` is a common option with its own flag."""


@dataclass(frozen=True)
class ComputeOptions:
    """The selected options."""

    channels_last: bool = False
    tf32: bool = False
    compile: bool | str = False

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> ComputeOptions:
        """Read the options of a model."""
        return cls(**{name: options[name] for name in cls.__dataclass_fields__ if name in options})

    @property
    def text(self) -> str:
        """Non-default options as a text, which is part of the model's fingerprint."""
        chosen = {name: value for name, value in asdict(self).items() if value != getattr(USUAL, name)}
        return ", ".join(f"{name}={str(value).lower()}" for name, value in chosen.items())

    @property
    def inexact(self) -> bool:
        """Whether vectors may differ from those of plain float32."""
        return self != USUAL

    def compiled(self, features: Callable[..., Any]) -> Callable[..., Any]:
        """Compile a tower if selected."""
        if not self.compile:
            return features
        import torch
        from torch._dynamo import list_backends
        from torch._dynamo.exc import InvalidBackend

        try:
            found: Callable[..., Any] = torch.compile(
                features, **({} if self.compile is True else {"backend": str(self.compile)})
            )
        except InvalidBackend as error:
            raise unknown_name("backend of torch.compile", str(self.compile), list_backends()) from error
        return found


USUAL = ComputeOptions()


def channels_last(value: Any) -> Any:
    """Convert images among nested tensors to channels-last; other tensors are unchanged."""
    import torch

    if isinstance(value, Mapping):
        return {name: channels_last(inner) for name, inner in value.items()}
    return value.contiguous(memory_format=torch.channels_last) if value.dim() == 4 else value


@dataclass(frozen=True)
class PrecisionComparison:
    """Differences between two ways of computing the same vectors."""

    way: str
    images: int
    mean: float
    """Mean cosine of the two vectors of an image."""
    lowest: float
    changed: int
    """Images whose nearest neighbour changes."""
    same: bool
    """Whether the vectors are identical bit for bit."""

    @property
    def message(self) -> str:
        """The comparison in one sentence."""
        if self.same:
            return UserMessage(
                "{way}, compared with plain fp32 on the first {n} images: the same vectors, bit for bit.",
                way=self.way,
                n=self.images,
            )
        # A cosine very close to 1 is written as its difference from 1.
        mean, lowest = (
            f"{value:.6f}" if not 0 < 1 - value < 1e-6 else f"1 - {1 - value:.0e}" for value in (self.mean, self.lowest)
        )
        return UserMessage(
            "{way}, compared with plain fp32 on the first {n} images: cosine {mean} on average, {lowest} at least; "
            "the nearest other image changed for {changed}.",
            way=self.way,
            n=self.images,
            mean=mean,
            lowest=lowest,
            changed=self.changed,
        )


def measure(way: str, plain: Vectors, other: Vectors) -> PrecisionComparison:
    """Compare the vectors of the same images, computed in two ways."""
    a, b = _unit(plain), _unit(other)
    cosines = np.einsum("ij,ij->i", a, b)
    near, found = a @ a.T, b @ b.T
    np.fill_diagonal(near, -np.inf)
    np.fill_diagonal(found, -np.inf)
    # Among equally near images, any may be found.
    changed = near[np.arange(len(a)), found.argmax(axis=1)] < near.max(axis=1)
    return PrecisionComparison(
        way,
        len(a),
        mean=float(cosines.mean()),
        lowest=float(cosines.min()),
        changed=int(changed.sum()),
        same=bool(np.array_equal(plain, other)),
    )


class PrecisionCheck:
    """Re-encodes the first images of a model in plain float32 and compares the vectors.

    ``way`` describes its precision and options; ``plain`` creates the plain encode function when needed.
    """

    def __init__(self, card: ModelCard, way: str, plain: Callable[[], Encode]) -> None:
        self.path, self.way = _comparison_path(card), way
        self._make: Callable[[], Encode] | None = plain
        self._encode: Encode | None = None
        self._pairs: list[tuple[Vectors, Vectors]] = []

    @property
    def due(self) -> bool:
        """Whether more images are needed."""
        return self._make is not None

    def see(self, batch: Any, vectors: Vectors) -> None:
        """Encode images again and compare; the vectors are not changed."""
        if self._make is None or not len(vectors):
            return
        left = IMAGES - sum(len(plain) for plain, _ in self._pairs)
        try:
            self._encode = self._encode or self._make()
            plain = np.array(self._encode(batch[:left]), np.float32)
        except (OutOfMemoryError, MemoryError):
            self._end()  # too little memory for a second model: not compared
            return
        self._pairs.append((plain, np.array(vectors[:left], np.float32)))
        found = measure(self.way, *(np.concatenate(side) for side in zip(*self._pairs, strict=True)))
        # Stored immediately, since the run may end here.
        known = read_calibration(self.path, PrecisionComparison)
        if known is None or known.images < found.images:
            write_cached(self.path, json.dumps(asdict(found)).encode())
        if found.images >= IMAGES:
            self._end()

    def _end(self) -> None:
        self._make = self._encode = None
        self._pairs = []


def is_due(card: ModelCard) -> bool:
    """Whether a model still has to be compared on this machine."""
    known = read_calibration(_comparison_path(card), PrecisionComparison)
    return known is None or known.images < IMAGES


def precision_notices(card: ModelCard) -> list[Notice]:
    """Report the comparison of a model, from this run or an earlier one."""
    known = read_calibration(_comparison_path(card), PrecisionComparison)
    return [] if known is None else [Notice("paired_check", 1, known.message)]


def plain_model(
    model: torch.nn.Module, spec: ModelSpec, compute: ComputeOptions, parameters: int
) -> torch.nn.Module | None:
    """Return the model to compare with: itself if only compute options differ, else a copy.

    None if there is nothing to compare, if the model is too large, or if its weights were rounded when loaded.
    In-memory objects are not compared.
    """
    if (spec.precision == "fp32" and not compute.inexact) or spec.family == IN_MEMORY:
        return None
    if {str(weight.dtype) for weight in model.parameters() if weight.is_floating_point()} != {"torch.float32"}:
        return None
    if spec.precision not in ("fp16", "bf16") and not compute.channels_last:
        return model  # its weights are neither rounded nor moved
    return copy.deepcopy(model).eval() if parameters <= LARGEST else None


def _unit(vectors: Vectors) -> NDArray[np.float64]:
    """Scale to unit length in float64: a float32 cosine has only seven digits."""
    exact = vectors.astype(np.float64)
    exact[~np.isfinite(exact).all(axis=1)] = 0  # overflow in half precision: counts as dissimilar
    lengths = np.linalg.norm(exact, axis=1, keepdims=True)
    return exact / np.where(lengths > 0, lengths, 1)


def _comparison_path(card: ModelCard) -> Path:
    # Without importing torch: a run that finds all vectors in the store reports the comparison, too.
    return calibration_path("paired", card.fingerprint)


def calibration_path(*key: object) -> Path:
    """Return the cache file of a measurement on this machine."""
    machine = [platform.machine(), platform.processor(), os.cpu_count()]
    return cache_root() / "calibration" / f"{digest_json([*key, machine])}.json"


def read_calibration(path: Path, kind: type[T]) -> T | None:
    """Read a cached measurement; None if there is none, or one of another version."""
    try:
        return kind(**json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None
