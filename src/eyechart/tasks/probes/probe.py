"""What all tasks that learn from images share: their settings, splits or folds, and how they are scored."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from eyechart.errors import UsageError
from eyechart.learn.linear import accuracy
from eyechart.metrics.classification import per_class_recall, rank_scores
from eyechart.metrics.vectors import Vectors
from eyechart.tasks.base import Material, Prediction, Task, need_samples
from eyechart.tasks.encoded import EncodedImages, encode_images
from eyechart.tasks.labelled import (
    LabelChance,
    label_metrics,
    label_notices,
    label_records,
    labels_of,
    no_acc5,
    wants_full,
)
from eyechart.tasks.probes.draws import DRAWS, draw_settings
from eyechart.tasks.probes.shots import fold_of, fold_settings, hold_out
from eyechart.tasks.probes.training import Features, Ints, Learned, TrainingData, training_data
from eyechart.types import Fact, Metric, Notice, Outcome


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
    """A task that learns from one split and is scored on another, or learns and is scored in folds of one."""

    kinds = frozenset({"classification"})
    measures = "probe"
    records = "label"
    instead_of_splits = "Name a split to learn from (--train_split), or learn and score in one: --folds 5."
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
        return {
            "train_split": options.get("train_split") or "train",
            "val_split": val_split,
            "val_proportion": proportion,
            "normalize": options.get("normalize", True),
            "seed": options.get("seed", 0),
            "metrics": options.get("metrics", "default"),
            **draw_settings(options),
            **fold_settings(options),
        }

    def splits(self, settings: Mapping[str, Any]) -> tuple[str, ...]:
        """Name the training and the validation split."""
        return tuple(dict.fromkeys(filter(None, (settings["train_split"], settings["val_split"]))))

    def predict(self, material: Material, settings: Mapping[str, Any]) -> ProbePrediction:
        """Embed what is needed of all splits, learn, and score the images of the split that counts."""
        if settings.get("folds"):
            return self._in_folds(encode_images(material, normalize=settings["normalize"]), material, settings)
        data = training_data(material, settings)
        pool, val, train = data.pool, data.val, data.drawn((settings["fewshot_k"], 0))
        learned = self.learn(train, val, settings, material.device)
        test = encode_images(material, normalize=settings["normalize"])
        scores = learned.judge(test.vectors)
        learnt_from = {"train": len(train), "val": len(val) if val else 0}
        return ProbePrediction(
            info=material.info,
            entries=test.entries,
            failures=test.failures,
            scores=scores,
            train_counts=np.bincount(train.labels),
            details={
                "probe": {**learnt_from, **learned.details},
                **self._spread(data, test, scores, settings, material.device),
            },
            notices=(*pool.notices, *(val.notices if val else ()), *test.notices, *learned.notices),
        )

    def _in_folds(self, images: EncodedImages, material: Material, settings: Mapping[str, Any]) -> ProbePrediction:
        """Score every image by what was learnt from the folds that it is not in."""
        features = Features(images.vectors, labels_of(images.entries))
        fold = fold_of(features.labels, images.digests, settings["folds"], settings["seed"])
        scores = np.full((len(features), int(features.labels.max(initial=0)) + 1), -np.inf, np.float32)
        details: list[dict[str, Any]] = []
        notices = list(images.notices)
        for number in range(settings["folds"]):
            train, val = features.take(np.flatnonzero(fold != number)), None
            if settings["val_proportion"]:
                keep, out = hold_out(len(train), settings["val_proportion"], settings["seed"])
                train, val = train.take(keep), train.take(out)
            draw = DRAWS[settings.get("fewshot_draw", "eyechart")]
            train = train.take(draw(train.labels, settings["fewshot_k"], settings["seed"], ()))
            learned = self.learn(train, val, settings, material.device)
            here = np.flatnonzero(fold == number)
            found = learned.judge(features.vectors[here])
            scores[here, : found.shape[1]] = found
            details.append({"train": len(train), "val": len(val) if val else 0, **learned.details})
            notices += learned.notices
        return ProbePrediction(
            info=material.info,
            entries=images.entries,
            failures=images.failures,
            scores=scores,
            train_counts=np.bincount(features.labels),
            details={"probe": {"folds": details}},
            notices=tuple(notices),
        )

    def _spread(
        self, data: TrainingData, test: EncodedImages, scores: Vectors, settings: Mapping[str, Any], device: str
    ) -> dict[str, Any]:
        """Repeat everything with other images: accuracy for each number of images per class, draw by draw."""
        labels, scored = labels_of(test.entries), (settings["fewshot_k"], 0)
        runs: dict[int, list[float]] = {}
        for draw in data.draws:
            if draw != scored:
                how = {**settings, "fewshot_k": draw[0]}
                found = self.learn(data.drawn(draw), data.val, how, device).judge(test.vectors)
            else:
                found = scores
            runs.setdefault(draw[0], []).append(accuracy(found, labels))
        points = {k: {"k": k, "mean": float(np.mean(found)), "runs": found} for k, found in runs.items()}
        curve = [points[k] for k in settings.get("fewshot_curve", ())]
        few = settings["fewshot_k"] > 0
        return ({"fewshot_draws": points[scored[0]]} if few else {}) | ({"fewshot_curve": curve} if curve else {})

    def score(self, prediction: ProbePrediction, settings: Mapping[str, Any]) -> Outcome:
        """Score like zero-shot classification; chance is a classifier that always names the commonest classes."""
        need_samples(prediction)
        labels = labels_of(prediction.entries)
        ranking = rank_scores(prediction.scores, labels)
        n_classes = max(len(prediction.info.classnames), prediction.scores.shape[1])
        chance = _chance_of_the_commonest(prediction.train_counts, labels, n_classes)
        metrics = label_metrics(ranking, labels, n_classes, chance, prefix=self.prefix, full=wants_full(settings))
        facts, few = no_acc5(n_classes, self.prefix)
        return Outcome(
            metrics=metrics | self._over_draws(prediction.details.get("fewshot_draws", {}).get("runs", ())),
            records=label_records(prediction.entries, ranking),
            notices=(*prediction.notices, *label_notices(ranking), *few),
            details={
                "classnames": list(prediction.info.classnames),
                "per_class_recall": per_class_recall(ranking.ranks == 1, labels, n_classes),
                **prediction.details,
            },
            facts=facts | self.facts(prediction, settings),
        )

    def _over_draws(self, runs: Sequence[float]) -> dict[str, Metric]:
        """Say how far accuracy depends on which few images were drawn."""
        if len(runs) < 2:
            return {}
        return {
            f"{self.prefix}acc1_mean_of_draws": Metric(float(np.mean(runs))),
            f"{self.prefix}acc1_sd_of_draws": Metric(float(np.std(runs, ddof=1)), lower_is_better=True),
        }

    def facts(self, prediction: ProbePrediction, settings: Mapping[str, Any]) -> dict[str, Fact]:  # noqa: ARG002 - for few
        """Return what else belongs among the metrics of the result file."""
        return {}


def _chance_of_the_commonest(train_counts: Ints, labels: Ints, n_classes: int) -> LabelChance:
    """Return what a classifier gets that always names the commonest training classes."""
    commonest = np.argsort(-train_counts, kind="stable")
    judged = np.unique(labels)

    def accuracy_at(k: int) -> float:
        return float(np.isin(labels, commonest[:k]).mean())

    # Of the classes that occur it gets one right and the others wrong.
    return LabelChance(accuracy_at, recall=max(1 / n_classes, float((judged == commonest[0]).mean())))
