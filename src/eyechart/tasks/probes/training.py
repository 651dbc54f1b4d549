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
from eyechart.tasks.probes.shots import few_per_class, hold_out
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


def training_data(material: Material, settings: Mapping[str, Any]) -> tuple[Features, Features | None]:
    """Embed the images to learn from and those to choose hyperparameters by; no more of them than needed."""
    whole = material.split(settings["train_split"]).manifest
    val = material.split(settings["val_split"]).manifest if settings["val_split"] else None
    shared = _shared(material.manifest, (whole, val) if val else (whole,))
    pool = whole
    if settings["val_proportion"]:
        keep, out = hold_out(len(whole), settings["val_proportion"], settings["seed"])
        pool, val = whole.only(keep), whole.only(out)
    if not settings.get("fewshot_curve"):
        # The labels are known without an image: only those that were drawn are embedded.
        drawn = few_per_class(
            labels_of(pool.entries), settings["fewshot_k"], settings["seed"], material.info.classnames
        )
        pool = pool.only(drawn)
    return _features(material, pool, settings, shared), _features(material, val, settings) if val else None


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
) -> Features:
    images = encode_images(material, manifest, normalize=settings["normalize"])
    lost = (*manifest.failures, *images.failures)
    if lost:
        message = f"{len(lost)} images to learn from could not be used, for example {lost[0].id}: {lost[0].reason}"
        notices = (*notices, Notice("unusable_training_images", len(lost), message))
    return Features(images.vectors, labels_of(images.entries), (*notices, *images.notices))
