"""What all tasks that learn from a training split share: which samples, which features, how they are scored."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from eyechart.errors import UsageError
from eyechart.learn.linear import accuracy
from eyechart.manifest import Manifest
from eyechart.metrics.classification import per_class_recall, rank_scores
from eyechart.metrics.vectors import Vectors, unit
from eyechart.tasks.base import Material, Prediction, Task, need_samples
from eyechart.tasks.labelled import label_metrics, label_notices, label_records, labels_of, wants_full
from eyechart.tasks.shots import curve_settings, few_per_class, hold_out
from eyechart.types import Notice, Outcome

Ints = NDArray[np.int64]


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


@dataclass(frozen=True)
class ProbePrediction(Prediction):
    """Scores of the samples that count, and what is worth knowing of the training."""

    rows = ("scores",)

    scores: Vectors
    train_counts: Ints
    """How often each class occurs in the training data."""
    details: Mapping[str, Any]
    notices: tuple[Notice, ...]


class Probe(Task):
    """A task that learns from one split and is scored on another."""

    kinds = frozenset({"classification"})
    prefix: ClassVar[str]
    """Of the metrics' names."""

    @abstractmethod
    def learn(self, train: Features, val: Features | None, settings: Mapping[str, Any], device: str) -> Learned:
        """Learn from features; ``val`` is for choosing hyperparameters."""

    def settings(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Pick what decides the training data."""
        val_split, proportion = options.get("val_split"), options.get("val_proportion")
        if val_split and proportion:
            raise UsageError("--val_split and --val_proportion exclude each other.", advice="Give one of them.")
        if proportion is not None and not 0 < proportion < 1:
            raise UsageError(f"--val_proportion must lie between 0 and 1, not {proportion}.")
        shots = options.get("fewshot_k", -1)
        if shots == 0 or shots < -1:
            raise UsageError(f"--fewshot_k must be 1 or more, or -1 for all images, not {shots}.")
        return {
            "train_split": options.get("train_split") or "train",
            "val_split": val_split,
            "val_proportion": proportion,
            "fewshot_k": shots,
            "normalize": options.get("normalize", True),
            "seed": options.get("seed", 0),
            "metrics": options.get("metrics", "default"),
            **curve_settings(options),
        }

    def splits(self, settings: Mapping[str, Any]) -> tuple[str, ...]:
        """Name the training and the validation split."""
        return tuple(dict.fromkeys(filter(None, (settings["train_split"], settings["val_split"]))))

    def predict(self, material: Material, settings: Mapping[str, Any]) -> ProbePrediction:
        """Embed what is needed of all splits, learn, and score the images of the split that counts."""
        pool, val = training_data(material, settings)
        train = pool.take(few_per_class(pool.labels, settings["fewshot_k"], settings["seed"]))
        learned = self.learn(train, val, settings, material.device)
        embedded = material.model.images(material.manifest)
        test = _scaled(embedded.vectors, settings)
        entries = material.manifest.take(embedded.kept)
        curve = self._curve(pool, val, test, labels_of(entries), settings, material.device)
        learnt_from = {"train": len(train), "val": len(val) if val else 0}
        return ProbePrediction(
            info=material.info,
            entries=entries,
            failures=embedded.failures,
            scores=learned.scores(test),
            train_counts=np.bincount(train.labels),
            details={"probe": {**learnt_from, **learned.details}} | ({"fewshot_curve": curve} if curve else {}),
            notices=(*pool.notices, *(val.notices if val else ()), *learned.notices),
        )

    def _curve(
        self,
        pool: Features,
        val: Features | None,
        test: Vectors,
        labels: Ints,
        settings: Mapping[str, Any],
        device: str,
    ) -> list[dict[str, Any]]:
        """Repeat everything with a few images per class: accuracy per k, over several draws."""
        points = []
        for k in settings.get("fewshot_curve", ()):
            runs = []
            for draw in range(settings["fewshot_repeats"]):
                few = pool.take(few_per_class(pool.labels, k, settings["seed"] + draw))
                learned = self.learn(few, val, {**settings, "fewshot_k": k}, device)
                runs.append(accuracy(learned.scores(test), labels))
            points.append({"k": k, "mean": float(np.mean(runs)), "runs": runs})
        return points

    def score(self, prediction: ProbePrediction, settings: Mapping[str, Any]) -> Outcome:
        """Score like zero-shot classification; chance is a classifier that always names the commonest classes."""
        need_samples(prediction)
        labels = labels_of(prediction.entries)
        ranking = rank_scores(prediction.scores, labels)
        n_classes = max(len(prediction.info.classnames), prediction.scores.shape[1])
        commonest = np.argsort(-prediction.train_counts, kind="stable")

        def chance(k: int) -> float:
            return float(np.isin(labels, commonest[:k]).mean())

        return Outcome(
            metrics=label_metrics(ranking, labels, n_classes, chance, prefix=self.prefix, full=wants_full(settings)),
            records=label_records(prediction.entries, ranking),
            notices=(*prediction.notices, *label_notices(ranking)),
            details={
                "classnames": list(prediction.info.classnames),
                "per_class_recall": per_class_recall(ranking.ranks == 1, labels, n_classes),
                **prediction.details,
            },
        )


def training_data(material: Material, settings: Mapping[str, Any]) -> tuple[Features, Features | None]:
    """Embed the images to learn from and those to choose hyperparameters by; no more of them than needed."""
    whole = material.split(settings["train_split"]).manifest
    pool, val = whole, None
    if settings["val_split"]:
        val = material.split(settings["val_split"]).manifest
    elif settings["val_proportion"]:
        keep, out = hold_out(len(whole), settings["val_proportion"], settings["seed"])
        pool, val = whole.only(keep), whole.only(out)
    if not settings.get("fewshot_curve"):
        # The labels are known without an image: only those that were drawn are embedded.
        drawn = few_per_class(
            labels_of(pool.entries), settings["fewshot_k"], settings["seed"], material.info.classnames
        )
        pool = pool.only(drawn)
    return _features(material, pool, settings), _features(material, val, settings) if val else None


def _features(material: Material, manifest: Manifest, settings: Mapping[str, Any]) -> Features:
    embedded = material.model.images(manifest)
    lost = (*manifest.failures, *embedded.failures)
    notices = []
    if lost:
        message = f"{len(lost)} images to learn from could not be used, for example {lost[0].id}: {lost[0].reason}"
        notices.append(Notice("unusable_training_images", len(lost), message))
    return Features(_scaled(embedded.vectors, settings), labels_of(manifest.take(embedded.kept)), tuple(notices))


def _scaled(vectors: Vectors, settings: Mapping[str, Any]) -> Vectors:
    return unit(vectors) if settings["normalize"] else vectors
