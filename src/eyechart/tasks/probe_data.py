"""Training data of probes: few-shot draws, folds, held-out parts, and features that no test image may enter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eyechart.errors import DataError, import_extra
from eyechart.manifest import Manifest
from eyechart.metrics.vectors import Ints, Vectors, zero_rows
from eyechart.settings.tasks import ProbeSettings
from eyechart.tasks.base import TaskContext, counted, encode_images
from eyechart.tasks.label_metrics import labels_of
from eyechart.types import Notice

FEW_SHARED = 0.1
"""Share of test images that may also be in the training data, with a notice: public datasets contain copies."""


def few_per_class(labels: Ints, k: int, seed: int, names: Sequence[str] = ()) -> Ints:
    """Draw ``k`` positions of every class that occurs, ascending; ``k`` below 1 means all of them.

    One random order is used for every k, so a larger draw with the same seed contains the smaller one. A class with
    fewer than ``k`` samples is an error: a score from uneven classes would not be a k-shot score.
    """
    check_shots(labels, k, names)
    if k < 1:
        return np.arange(len(labels))
    by_class, place = _grouped_by_class(labels, np.random.default_rng(seed).permutation(len(labels)))
    return np.sort(by_class[place < k])


def check_shots(labels: Ints, k: int, names: Sequence[str] = ()) -> None:
    """Raise if a class has fewer images than shots."""
    counts = np.bincount(labels)
    small = [int(c) for c in np.flatnonzero(counts) if counts[c] < k]
    if small:
        name = repr(names[small[0]]) if small[0] < len(names) else str(small[0])
        raise DataError(
            "{n} classes have fewer than {k} training images, for example {name} with {counts}.",
            advice="Use at most {--fewshot_k={min}}.",
            n=len(small),
            k=k,
            name=name,
            counts=counts[small[0]],
            min=counts[counts > 0].min(),
        )


def _grouped_by_class(labels: Ints, order: Ints) -> tuple[Ints, Ints]:
    """Return the positions grouped by class, within each in the given order, and the rank of each in its class."""
    counts = np.bincount(labels)
    place = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)
    return order[np.argsort(labels[order], kind="stable")], place


def hold_out(n: int, proportion: float, seed: int) -> tuple[Ints, Ints]:
    """Split positions at random into a training and a validation part."""
    size = round(n * proportion)
    if not 0 < size < n:
        raise DataError(
            "A validation share of {proportion} of {n} training images leaves one part empty.",
            proportion=proportion,
            n=n,
        )
    order = np.random.default_rng(seed).permutation(n)
    return np.sort(order[size:]), np.sort(order[:size])


def hold_out_per_class(labels: Ints, proportion: float, seed: int) -> tuple[Ints, Ints] | None:
    """Hold out the same share of every class; None if a class is too small to be split."""
    counts = np.bincount(labels)
    size = np.floor(counts * proportion).astype(np.int64)
    if (size[counts > 0] < 1).any():
        return None
    by_class, place = _grouped_by_class(labels, np.random.default_rng(seed).permutation(len(labels)))
    out = place < size[labels[by_class]]
    return np.sort(by_class[~out]), np.sort(by_class[out])


def fold_of(labels: Ints, digests: NDArray[np.uint8], folds: int, seed: int) -> Ints:
    """Assign samples to folds: stratified by class, copies of an image in the same fold."""
    _, first, number = np.unique(digests, axis=0, return_index=True, return_inverse=True)
    if len(first) < folds:
        raise DataError(
            "{n} different images are too few for {folds} folds.",
            advice="Use fewer {--folds}.",
            n=len(first),
            folds=folds,
        )
    by_class, _ = _grouped_by_class(labels[first], np.random.default_rng(seed).permutation(len(first)))
    fold = np.empty(len(first), np.int64)
    fold[by_class] = np.arange(len(first)) % folds
    return np.asarray(fold[number.ravel()], np.int64)


Draw = tuple[int, int]
"""Images per class, and the number of the draw, starting at 0."""


def peer_draw(labels: Ints, k: int, seed: int, names: Sequence[str] = ()) -> Ints:
    """Draw as CLIP_benchmark does from stored features: the first ``k`` of each class in a torch permutation.

    The order is kept because CLIP_benchmark's probe trains in it. Without ``--skip_load``, the original loads a model
    before drawing, which changes the random state and thus the images from model to model.
    """
    check_shots(labels, k, names)
    torch = import_extra("torch", "open-clip")
    order: Ints = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed)).numpy()
    if k < 1:
        return order
    by_class, place = _grouped_by_class(labels, order)
    return order[np.isin(order, by_class[place < k])]


DRAWS: Mapping[str, Callable[[Ints, int, int, Sequence[str]], Ints]] = {
    "eyechart": few_per_class,
    "clip_benchmark": peer_draw,
}


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
        """Return the selected rows."""
        return Features(self.vectors[rows], self.labels[rows])


@dataclass(frozen=True)
class TrainedProbe:
    """A trained classifier: a function from features to one score per class, and how it was trained."""

    scores: Callable[[Vectors], Vectors]
    details: Mapping[str, Any] = field(default_factory=dict)
    notices: tuple[Notice, ...] = ()

    def judge(self, features: Vectors) -> Vectors:
        """Return the class scores; for a zero vector all classes tie."""
        scores = self.scores(features)
        scores[zero_rows(features)] = 0
        return scores


def training_data(context: TaskContext, settings: ProbeSettings) -> tuple[Features, dict[Draw, Ints], Features | None]:
    """Embed the images that are needed; return the pool to train on, the rows of each draw, and the validation data."""
    whole = context.open_split(settings.train_split or "train")
    val = context.open_split(settings.val_split) if settings.val_split else None
    shared = _shared(context.manifest, (whole, val) if val else (whole,))
    pool = whole
    if settings.val_proportion:
        keep, out = hold_out(len(whole), settings.val_proportion, settings.seed)
        pool, val = whole.only(keep), whole.only(out)
    # Labels are known without images, so only the drawn ones are embedded.
    labels, shots, repeats = labels_of(pool.entries), settings.fewshot_k, settings.fewshot_repeats
    wanted = [(shots, number) for number in range(repeats if shots > 0 else 1)]
    wanted += [(k, number) for k in settings.fewshot_curve for number in range(repeats)]
    choose, names = DRAWS[settings.fewshot_draw], context.info.classnames
    draws = {(k, number): choose(labels, k, settings.seed + number, names) for k, number in wanted}
    needed = np.unique(np.concatenate(list(draws.values())))
    features, kept = _features(context, pool.only(needed), settings, shared)
    places = np.full(len(pool), -1, np.int64)
    places[needed[kept]] = np.arange(len(features))
    draws = {draw: places[rows][places[rows] >= 0] for draw, rows in draws.items()}
    for (k, _), rows in draws.items():
        check_shots(features.labels[rows], k, names)
    return features, draws, _features(context, val, settings)[0] if val else None


def _shared(scored: Manifest, training: tuple[Manifest, ...]) -> tuple[Notice, ...]:
    """Reject test images in the training data, unless they are few."""
    known = {key.tobytes() for manifest in training for key in manifest.digests}
    count = sum(key.tobytes() in known for key in scored.digests)
    found = counted(
        "shared_images",
        count,
        "{n} of the {all} test images are also in the training data ({splits}).",
        all=len(scored),
        splits=" and ".join(repr(manifest.info.split) for manifest in training),
    )
    if count > FEW_SHARED * len(scored):
        raise DataError(
            "{name}: {reason}",
            advice="Name a split with other images ({--train_split}; for validation {--val_split} or "
            "{--val_proportion}), or cross-validate within one split: {--folds=5}.",
            name=scored.info.name,
            reason=found[0].message,
        )
    return found


def _features(
    context: TaskContext, manifest: Manifest, settings: ProbeSettings, notices: tuple[Notice, ...] = ()
) -> tuple[Features, Ints]:
    """Embed images and note failures; also return the positions of the embedded ones."""
    images = encode_images(context, manifest, normalize=settings.normalize, prompt=settings.query_prompt)
    lost = (*manifest.failures, *images.failures)
    if lost:
        message = "{n} training images could not be used, for example {id}: {reason}"
        notices += counted("unusable_training_images", len(lost), message, id=lost[0].id, reason=lost[0].reason)
    used = {entry.id for entry in images.entries}
    kept = np.array([i for i, entry in enumerate(manifest.entries) if entry.id in used], np.int64)
    return Features(images.vectors, labels_of(images.entries), (*notices, *images.notices)), kept
