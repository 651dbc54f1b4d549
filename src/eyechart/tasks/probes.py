"""Probes: tasks that learn from a training split (k nearest neighbours, logistic regression, linear probe)."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np

from eyechart.errors import import_extra, missing_extra
from eyechart.learn.linear_classifiers import (
    Fit,
    Linear,
    Schedule,
    accuracy,
    find_peak,
    fit_adamw,
    fit_logistic,
    log_grid,
    log_likelihood,
)
from eyechart.learn.nearest import neighbour_votes
from eyechart.messages import UserMessage
from eyechart.metrics.classification import rank_scores
from eyechart.metrics.vectors import Ints, Vectors, unit
from eyechart.settings.tasks import KnnSettings, LinearProbeSettings, ProbeSettings, TaskSettings
from eyechart.stats.intervals import FEWEST_DRAWS
from eyechart.tasks.base import Prediction, Task, TaskContext, counted, encode_images, need_samples
from eyechart.tasks.label_metrics import label_outcome, labels_of
from eyechart.tasks.probe_data import (
    DRAWS,
    Features,
    TrainedProbe,
    fold_of,
    hold_out,
    hold_out_per_class,
    training_data,
)
from eyechart.types import DatasetInfo, Metric, Outcome


@dataclass(frozen=True)
class ProbePrediction(Prediction):
    """Class scores of the scored samples, and details of the training."""

    rows = ("scores", "ranks")

    scores: Vectors
    ranks: Ints
    """Rank of the true class by sample and training draw, the scored draw first; no columns without few shots."""
    train_counts: Ints
    """Number of training images per class."""
    details: Mapping[str, Any]


class Probe(Task):
    """A task that trains on one split and is scored on another, or by cross-validation within one split."""

    kinds = frozenset({"classification"})
    inputs = ("image",)
    measures = "probe"
    records = "label"
    Settings: ClassVar[type[TaskSettings]] = ProbeSettings
    instead_of_splits = UserMessage(
        "Name a training split ({--train_split}), or cross-validate within one split: {--folds=5}."
    )
    prefix: ClassVar[str]
    """Prefix of the metric names."""

    @abstractmethod
    def learn(self, train: Features, val: Features | None, settings: Any, device: str) -> TrainedProbe:
        """Train on features; ``val`` is for choosing hyperparameters."""

    def predict(self, context: TaskContext, settings: ProbeSettings) -> ProbePrediction:
        """Embed the required splits, train, and score the images of the test split."""
        if settings.folds:
            return self._cross_validate(context, settings, settings.folds)
        pool, draws, val = training_data(context, settings)
        scored = (settings.fewshot_k, 0)
        train = pool.take(draws[scored])
        learned = self.learn(train, val, settings, context.device)
        test = encode_images(context, normalize=settings.normalize, prompt=settings.query_prompt)
        scores, labels = learned.judge(test.vectors), labels_of(test.entries)
        ranks: dict[int, list[Ints]] = {}  # of the true class, by the number of images per class
        for draw, rows in draws.items():
            found = scores
            if draw != scored:
                how = settings.replaced(fewshot_k=draw[0])
                found = self.learn(pool.take(rows), val, how, context.device).judge(test.vectors)
            ranks.setdefault(draw[0], []).append(rank_scores(found, labels).ranks)
        runs = {k: [float((one == 1).mean()) for one in found] for k, found in ranks.items()}
        points = {k: {"k": k, "mean": float(np.mean(found)), "runs": found} for k, found in runs.items()}
        details: dict[str, Any] = {"probe": {"train": len(train), "val": len(val) if val else 0, **learned.details}}
        if settings.fewshot_k > 0:
            details["fewshot_draws"] = points[settings.fewshot_k]
        if settings.fewshot_curve:
            details["fewshot_curve"] = [points[k] for k in settings.fewshot_curve]
        return ProbePrediction(
            info=context.info,
            entries=test.entries,
            failures=test.failures,
            scores=scores,
            ranks=np.stack(ranks[settings.fewshot_k], axis=1)[:, : None if settings.fewshot_k > 0 else 0],
            train_counts=np.bincount(train.labels),
            details=details,
            notices=(*pool.notices, *(val.notices if val else ()), *test.notices, *learned.notices),
        )

    def _cross_validate(self, context: TaskContext, settings: ProbeSettings, folds: int) -> ProbePrediction:
        """Score every image with a classifier trained on the other folds."""
        images = encode_images(context, normalize=settings.normalize, prompt=settings.query_prompt)
        features = Features(images.vectors, labels_of(images.entries))
        fold = fold_of(features.labels, images.digests, folds, settings.seed)
        scores = np.full((len(features), int(features.labels.max(initial=0)) + 1), -np.inf, np.float32)
        details: list[dict[str, Any]] = []
        notices = list(images.notices)
        for number in range(folds):
            train, val = features.take(np.flatnonzero(fold != number)), None
            if settings.val_proportion:
                keep, out = hold_out(len(train), settings.val_proportion, settings.seed)
                train, val = train.take(keep), train.take(out)
            train = train.take(DRAWS[settings.fewshot_draw](train.labels, settings.fewshot_k, settings.seed, ()))
            learned = self.learn(train, val, settings, context.device)
            here = np.flatnonzero(fold == number)
            found = learned.judge(features.vectors[here])
            scores[here, : found.shape[1]] = found
            details.append({"train": len(train), "val": len(val) if val else 0, **learned.details})
            notices += learned.notices
        ranks = rank_scores(scores, features.labels).ranks[:, None]  # every fold draws, but none is drawn again
        return ProbePrediction(
            info=context.info,
            entries=images.entries,
            failures=images.failures,
            scores=scores,
            ranks=ranks[:, : int(settings.fewshot_k > 0)],
            train_counts=np.bincount(features.labels),
            details={"probe": {"folds": details}},
            notices=tuple(notices),
        )

    def score(self, prediction: ProbePrediction, settings: ProbeSettings) -> Outcome:
        """Score like zero-shot classification; chance is a classifier that always predicts the commonest classes."""
        need_samples(prediction)
        labels, prefix = labels_of(prediction.entries), self.prefix
        n_classes = max(len(prediction.info.classnames), prediction.scores.shape[1])
        commonest = np.argsort(-prediction.train_counts, kind="stable")
        outcome = label_outcome(
            prediction,
            rank_scores(prediction.scores, labels),
            n_classes,
            settings,
            chance=lambda k: float(np.isin(labels, commonest[:k]).mean()),
            # Of the classes that occur, it gets one right and the others wrong.
            chance_recall=max(1 / n_classes, float((np.unique(labels) == commonest[0]).mean())),
            prefix=prefix,
            draws=prediction.ranks.T if prediction.ranks.size else None,
        )
        metrics, runs = dict(outcome.metrics), (prediction.ranks == 1).mean(axis=0)
        if len(runs) > 1:
            metrics[f"{prefix}acc1_mean_of_draws"] = Metric(float(np.mean(runs)))
            metrics[f"{prefix}acc1_sd_of_draws"] = Metric(float(np.std(runs, ddof=1)), lower_is_better=True)
        few = (
            "No interval: {n} draws of training images do not show how much their choice matters. "
            "Use a training split and {--fewshot_repeats=3} or more."
        )
        return replace(
            outcome,
            metrics=metrics,
            notices=(*outcome.notices, *counted("too_few_draws", len(runs) if len(runs) < FEWEST_DRAWS else 0, few)),
            details={"classnames": list(prediction.info.classnames), **outcome.details, **prediction.details},
        )


class Knn(Probe):
    """knn_acc1, knn_acc5 and knn_mean_per_class_recall of a vote of the k nearest training images by cosine.

    A vote has the weight exp(cosine / 0.07), as in Wu et al. 2018 and DINO. A validation set is not used.
    """

    name = "knn"
    prefix = "knn_"
    Settings = KnnSettings

    def learn(self, train: Features, val: Features | None, settings: KnnSettings, device: str) -> TrainedProbe:  # noqa: ARG002 - nothing to choose
        """Keep the training images as the index."""
        vectors, k = unit(train.vectors), settings.knn_k
        return TrainedProbe(lambda queries: neighbour_votes(vectors, train.labels, unit(queries), k), {"k": k})


STRENGTHS = log_grid(-6, 6)
"""Candidates for the inverse regularisation (scikit-learn's C), those of Radford et al. 2021."""
HELD_OUT = 0.2
"""Share of the training data held out to choose C if there is no validation set."""
SEARCH_TOLERANCE, SEARCH_ITERATIONS = 1e-4, 100


class LogisticProbe(Probe):
    """lp_acc1, lp_acc5 and lp_mean_per_class_recall of L2-regularised multinomial logistic regression.

    The problem is convex and solved by L-BFGS, so there is no learning rate, epoch count or random initialisation. The
    regularisation strength is chosen on the validation set or, without one, on a fifth of the training data; the final
    fit uses all of it.
    """

    name = "logistic_probe"
    prefix = "lp_"

    def learn(self, train: Features, val: Features | None, settings: ProbeSettings, device: str) -> TrainedProbe:  # noqa: ARG002 - numpy has one device
        """Choose the regularisation strength, then fit on all data."""
        whole = train + val if val and settings.fewshot_k < 0 else train
        strength = _choose(train, val, settings.seed)
        fit = fit_logistic(whole.vectors, whole.labels, strength)
        slow = "The probe did not converge in {iterations} iterations."
        return TrainedProbe(
            fit.model.scores,
            {"C": strength, "iterations": fit.iterations, "converged": fit.converged},
            counted("not_converged", int(not fit.converged), slow, iterations=fit.iterations),
        )


def _choose(train: Features, val: Features | None, seed: int) -> float:
    """Choose the strength with the best validation likelihood; with too few images to hold some out, do not search.

    Likelihood rather than accuracy: on small validation sets most strengths make the same number of mistakes.
    """
    if val is None:
        parts = hold_out_per_class(train.labels, HELD_OUT, seed)
        if parts is None:
            # Equivalent to C = 1 for features of unit variance, for which scikit-learn's default is meant.
            return float(1 / max(train.vectors.var(axis=0).mean(), np.finfo(np.float32).tiny))
        train, val = train.take(parts[0]), train.take(parts[1])
    fits: dict[int, Fit] = {}

    def score(point: int) -> float:
        near = min(fits, key=lambda known: abs(known - point), default=None)
        fits[point] = fit_logistic(
            train.vectors,
            train.labels,
            float(STRENGTHS[point]),
            start=fits[near].model if near is not None else None,
            tolerance=SEARCH_TOLERANCE,
            max_iterations=SEARCH_ITERATIONS,
        )
        return log_likelihood(fits[point].model.scores(val.vectors), val.labels)

    return float(STRENGTHS[find_peak(score)])


WEIGHT_DECAYS = log_grid(-6, 2)


class LinearProbe(Probe):
    """lp_acc1, lp_acc5 and lp_mean_per_class_recall as CLIP_benchmark computes them, on any device.

    With a validation set, weight decay is tuned on it; without one it is 0, as in the original. The final fit uses
    training and validation data together, except in few-shot runs, which would then have more shots.
    """

    name = "linear_probe"
    prefix = "lp_"
    Settings = LinearProbeSettings

    def check(self, info: DatasetInfo, settings: LinearProbeSettings) -> None:
        """Reject a run without torch."""
        super().check(info, settings)
        if find_spec("torch") is None:
            raise missing_extra("torch", "open-clip")

    def learn(self, train: Features, val: Features | None, settings: LinearProbeSettings, device: str) -> TrainedProbe:
        """Tune weight decay if there is a validation set, then train the scored layer."""
        schedule = Schedule(settings.fewshot_epochs, settings.fewshot_lr, settings.batch_size, settings.seed)
        everything = train + val if val else train
        classes = int(everything.labels.max()) + 1
        place = device
        if device == "auto":
            place = "cuda" if import_extra("torch", "open-clip").cuda.is_available() else "cpu"

        def fit(data: Features, weight_decay: float) -> Linear:
            return fit_adamw(data.vectors, data.labels, classes, weight_decay, schedule, place)

        if val is None:
            decay, data = 0.0, train
        else:
            peak = find_peak(lambda i: accuracy(fit(train, float(WEIGHT_DECAYS[i])).scores(val.vectors), val.labels))
            decay, data = float(WEIGHT_DECAYS[peak]), everything if settings.fewshot_k < 0 else train
        return TrainedProbe(
            fit(data, decay).scores, {"weight_decay": decay, "epochs": schedule.epochs, "device": place}
        )

    def score(self, prediction: ProbePrediction, settings: Any) -> Outcome:
        """Add the training parameters under CLIP_benchmark's names; with folds, weight decay may differ per fold."""
        outcome = super().score(prediction, settings)
        probe = prediction.details["probe"]
        facts = {
            **outcome.facts,
            **({"weight_decay": probe["weight_decay"]} if "weight_decay" in probe else {}),
            "epochs": settings.fewshot_epochs,
            "seed": settings.seed,
            "fewshot_k": settings.fewshot_k,
            "normalized": settings.normalize,
        }
        return replace(outcome, facts=facts)
