"""What probes learn from: features of the training and validation images, none of which may be scored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eyechart.errors import DataError
from eyechart.manifest import Manifest
from eyechart.metrics.vectors import Vectors, zero_rows
from eyechart.tasks.base import Material
from eyechart.tasks.encoded import encode_images
from eyechart.tasks.labelled import labels_of
from eyechart.tasks.probes.draws import Draw, all_draws
from eyechart.tasks.probes.shots import check_shots, hold_out
from eyechart.types import Notice

Ints = NDArray[np.int64]

FEW_SHARED = 0.1
"""Up to this share of the scored images may be in the training data as well (public sets hold copies); it is noted."""


@dataclass(frozen=True)
class Features:
    """Vectors of images and their classes."""

    vectors: Vectors
    labels: Ints
    notices: tuple[Notice, ...] = ()

    def __len__(self) -> int:
        return len(self.labels)

    def __add__(self, other: Features) -> Features:
        return Features(np.concatenate([self.vectors, other.vectors]), np.concatenate([self.labels, other.labels]))

    def take(self, rows: Ints) -> Features:
        """Return some of the rows."""
        return Features(self.vectors[rows], self.labels[rows])


@dataclass(frozen=True)
class Learned:
    """What was learnt: a function from features to one score per class, and how it came about."""

    scores: Callable[[Vectors], Vectors]
    details: Mapping[str, Any] = field(default_factory=dict)
    notices: tuple[Notice, ...] = ()

    def judge(self, features: Vectors) -> Vectors:
        """Return the scores; a zero vector says nothing, so that all classes tie."""
        scores = self.scores(features)
        scores[zero_rows(features)] = 0
        return scores


@dataclass(frozen=True)
class TrainingData:
    """What there is to learn from, which of it each draw takes, and what hyperparameters are chosen by."""

    pool: Features
    draws: Mapping[Draw, Ints]
    val: Features | None

    def drawn(self, draw: Draw) -> Features:
        """Return the images of a draw."""
        return self.pool.take(self.draws[draw])


def training_data(material: Material, settings: Mapping[str, Any]) -> TrainingData:
    """Embed the images to learn from and those to choose hyperparameters by; no more of them than needed."""
    whole = material.split(settings["train_split"]).manifest
    val = material.split(settings["val_split"]).manifest if settings["val_split"] else None
    shared = _shared(material.manifest, (whole, val) if val else (whole,))
    pool = whole
    if settings["val_proportion"]:
        keep, out = hold_out(len(whole), settings["val_proportion"], settings["seed"])
        pool, val = whole.only(keep), whole.only(out)
    # The labels are known without an image: only those that were drawn are embedded.
    draws = all_draws(labels_of(pool.entries), settings, material.info.classnames)
    needed = np.unique(np.concatenate(list(draws.values())))
    features, kept = _features(material, pool.only(needed), settings, shared)
    places = np.full(len(pool), -1, np.int64)
    places[needed[kept]] = np.arange(len(features))
    draws = {draw: places[rows][places[rows] >= 0] for draw, rows in draws.items()}
    for (k, _), rows in draws.items():
        check_shots(features.labels[rows], k, material.info.classnames)
    return TrainingData(features, draws, _features(material, val, settings)[0] if val else None)


def _shared(scored: Manifest, learnt: tuple[Manifest, ...]) -> tuple[Notice, ...]:
    """Refuse to score images that are learnt from, unless they are few."""
    known = {key for manifest in learnt for key in _keys(manifest)}
    count = sum(key in known for key in _keys(scored))
    if not count:
        return ()
    splits = " and ".join(repr(manifest.info.split) for manifest in learnt)
    message = f"{count} of the {len(scored)} images that are scored are also learnt from, in {splits}."
    if count > FEW_SHARED * len(scored):
        raise DataError(
            f"{scored.info.name}: {message}",
            advice="Name a split with other images (--train_split; to choose by: --val_split or --val_proportion), "
            "or learn and score in one split: --folds 5.",
        )
    return (Notice("shared_images", count, message),)


def _keys(manifest: Manifest) -> list[bytes]:
    return [key.tobytes() for key in manifest.digests]


def _features(
    material: Material, manifest: Manifest, settings: Mapping[str, Any], notices: tuple[Notice, ...] = ()
) -> tuple[Features, Ints]:
    """Embed images; those that cannot be used are noted. The places of the others come with them."""
    images = encode_images(material, manifest, normalize=settings["normalize"])
    lost = (*manifest.failures, *images.failures)
    if lost:
        message = f"{len(lost)} images to learn from could not be used, for example {lost[0].id}: {lost[0].reason}"
        notices = (*notices, Notice("unusable_training_images", len(lost), message))
    used = {entry.id for entry in images.entries}
    kept = np.array([i for i, entry in enumerate(manifest.entries) if entry.id in used], np.int64)
    return Features(images.vectors, labels_of(images.entries), (*notices, *images.notices)), kept
