"""Fashion-MNIST from its idx files, cut into training, validation and test garments."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path

import numpy as np

VALIDATION_SIZE = 5000
"""The last images of the training split are kept back for the final report of a training run."""


@dataclass(frozen=True)
class Garments:
    """Grayscale images [n, 28, 28] uint8 with their class numbers [n] int64."""

    images: np.ndarray
    labels: np.ndarray

    def take(self, chosen: np.ndarray | slice) -> Garments:
        """The garments at the given positions."""
        return Garments(self.images[chosen], self.labels[chosen])


def read_idx(path: Path) -> np.ndarray:
    """Read one gzipped idx file of unsigned bytes (the format of MNIST)."""
    raw = gzip.decompress(path.read_bytes())
    if raw[:3] != b"\x00\x00\x08":
        raise ValueError(f"{path} is not an idx file of unsigned bytes")
    shape = np.frombuffer(raw, dtype=">u4", count=raw[3], offset=4)
    return np.frombuffer(raw, dtype=np.uint8, offset=4 + 4 * raw[3]).reshape(shape)


def read_split(folder: Path, name: str) -> Garments:
    """Read `train` or `t10k`."""
    images = read_idx(folder / f"{name}-images-idx3-ubyte.gz")
    labels = read_idx(folder / f"{name}-labels-idx1-ubyte.gz")
    return Garments(images, labels.astype(np.int64))


def load(folder: Path) -> tuple[Garments, Garments, Garments]:
    """Training, validation and test garments; no image of the first is in one of the others."""
    full = read_split(folder, "train")
    train = full.take(slice(None, -VALIDATION_SIZE))
    seen = {image.tobytes() for image in train.images}
    held_out = (full.take(slice(-VALIDATION_SIZE, None)), read_split(folder, "t10k"))
    validation, test = (_unseen(garments, seen) for garments in held_out)
    return train, validation, test


def _unseen(garments: Garments, seen: set[bytes]) -> Garments:
    return garments.take(np.array([image.tobytes() not in seen for image in garments.images]))
