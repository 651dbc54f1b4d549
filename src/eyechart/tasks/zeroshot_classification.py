"""Zero-shot classification with one or several labels per image, and the study of single prompts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eyechart import stats
from eyechart.errors import DataError, LanguageError
from eyechart.languages import is_main
from eyechart.manifest import Entry
from eyechart.messages import UserMessage
from eyechart.metrics.classification import (
    Likelihoods,
    adaptive_calibration_error,
    average_precision,
    expected_calibration_error,
    f1_macro,
    first_choices,
    likelihoods,
    per_class_recall,
    predicted_classes,
    rank_labels,
    reliability,
)
from eyechart.metrics.vectors import Vectors, zero_rows
from eyechart.settings.tasks import ZeroshotClassificationSettings
from eyechart.tasks import text_classifiers
from eyechart.tasks.base import (
    Prediction,
    Task,
    TaskContext,
    counted,
    encode_images,
    encode_texts,
    make_metric,
    need_samples,
)
from eyechart.tasks.label_metrics import (
    LabelChance,
    label_metrics,
    label_notices,
    label_records,
    labels_of,
    no_acc5,
    wants_full,
)
from eyechart.tasks.text_classifiers import (
    check_template,
    class_texts,
    class_vectors,
    duplicate_classes,
    merge_duplicates,
    prompts_of,
)
from eyechart.types import DatasetInfo, MeanOf, Metric, Notice, Outcome


@dataclass(frozen=True, slots=True)
class EmptyClassRule:
    """How classes without positives count towards mAP."""

    counts: bool
    function: str
    """How the report computes it from records."""
    said: str


EMPTY_CLASSES = {
    "leave_out": EmptyClassRule(counts=False, function="mean_average_precision", said="are left out"),
    "zero": EmptyClassRule(counts=True, function="mean_average_precision_of_all_classes", said="count 0"),
}
"""Eyechart's convention, and CLIP_benchmark's."""


def score_multilabel(
    info: DatasetInfo,
    entries: Sequence[Entry],
    images: Vectors,
    classes: Vectors,
    settings: ZeroshotClassificationSettings,
) -> Outcome:
    """Rank the images for each class and average the average precision over classes."""
    n_classes = len(info.classnames)
    present = np.zeros((len(entries), n_classes), bool)
    for row, entry in enumerate(entries):
        present[row, list(entry.labels)] = True
    scores = images @ classes.T
    scores[zero_rows(images)] = -1  # below every other image for every class
    judged = [i for i in range(n_classes) if present[:, i].any()]
    if not judged:
        raise DataError("{name}: no image has any label, so there is nothing to rank.", name=info.name)
    precision = {i: average_precision(scores[:, i], present[:, i]) for i in judged}
    empty = n_classes - len(judged)
    rule = EMPTY_CLASSES[settings.empty_classes]
    share = len(judged) / n_classes if rule.counts else 1.0
    interval = stats.average_precision_interval(scores[:, judged], present[:, judged])
    metric = make_metric(
        share * float(np.mean(list(precision.values()))),
        interval and stats.Interval(share * interval.low, share * interval.high),
        chance=share * float(present[:, judged].mean()),
        n=len(entries),
        primary=True,
        function=rule.function,
    )
    message = UserMessage("{empty} classes have no positives and {said}.", empty=empty, said=rule.said)
    records = [
        {"id": entry.id, "labels": list(entry.labels), "scores": [round(float(value), 8) for value in row]}
        for entry, row in zip(entries, scores, strict=True)
    ]
    return Outcome(
        metrics={"mean_average_precision": metric},
        records=records,
        notices=counted("class_without_positives", empty, message),
        details=prompts_of(info) | {"per_class_ap": precision},
    )


# Prompt sensitivity: the accuracy of each template alone compared to the ensemble.


AUTO_SCORES = 200_000_000
"""With ``auto`` the study runs if it needs at most this many scores: some seconds, no image is encoded."""


def wants_prompt_study(mode: str, info: DatasetInfo, samples: int) -> bool:
    """Whether to compare templates."""
    if mode == "no" or len(info.templates) < 2 or info.class_prompts or info.kind != "classification":
        return False
    return mode == "yes" or samples * len(info.classnames) * len(info.templates) <= AUTO_SCORES


def by_template(text_vectors: Vectors, info: DatasetInfo) -> Vectors:
    """Reshape unit vectors of texts (by class, then by template) into one classifier per template."""
    classes, templates = len(info.classnames), len(info.templates)
    return text_vectors.reshape(classes, templates, -1).transpose(1, 0, 2)


def prompt_study(
    images: Vectors, classifiers: Vectors, labels: NDArray[np.int64], info: DatasetInfo, ensemble: float
) -> dict[str, Any]:
    """Return the accuracy of each template and of the ensemble, its gain over the mean, and the spread."""
    accuracies = [float(first_choices(images, classes, labels, info.classnames).mean()) for classes in classifiers]
    mean = float(np.mean(accuracies))
    return {
        "templates": list(info.templates),
        "acc1": accuracies,
        "ensemble": ensemble,
        "mean": mean,
        "gain": ensemble - mean,
        "std": float(np.std(accuracies, ddof=1)),
        "min": min(accuracies),
        "max": max(accuracies),
    }


# Zero-shot classification: predict the class whose texts are most similar to the image.


F1_DATACOMP = "F1-macro_all"
"""DataComp's name for f1_macro, its main metric for iWildCam."""


@dataclass(frozen=True)
class ClassificationPrediction(Prediction):
    """Unit vectors of images and classes."""

    rows = ("images",)

    images: Vectors
    classes: Vectors
    notices: tuple[Notice, ...]
    logit_scale: float | None = None
    """The model's own scale and bias; without a scale it has no probabilities."""
    logit_bias: float | None = None
    by_template: Vectors | None = None
    """One classifier per template, shape (templates, classes, d), if templates are compared."""


class ZeroshotClassification(Task):
    """acc1, acc5 (from five classes on) and mean_per_class_recall; for multi-label data mean_average_precision.

    The details also hold the accuracy of each template alone (prompt_sensitivity) and, if the model has its own scale,
    its calibration; both reuse the existing vectors.
    """

    name = "zeroshot_classification"
    version = 2
    kinds = frozenset({"classification", "multilabel"})
    measures = "classification"
    records = {"classification": "label", "multilabel": "labels"}  # noqa: RUF012 - declared as ClassVar above
    Settings = ZeroshotClassificationSettings

    def check(self, info: DatasetInfo, settings: ZeroshotClassificationSettings) -> None:
        """Reject a dataset without class names or prompts."""
        super().check(info, settings)
        if not info.classnames:
            raise (DataError if is_main(info.language) else LanguageError)(
                UserMessage(
                    "{name}: no class names for language {language!r} in {source}.",
                    name=info.name,
                    language=info.language,
                    source=info.source,
                ),
                advice=UserMessage(
                    "Add classnames{language}.txt (one name per line), or use {--custom_classname_file}.",
                    language="" if is_main(info.language) else f".{info.language}",
                ),
            )
        for template in info.templates:
            check_template(template, info.source)
        class_texts(info)
        for path in settings.load_clfs:
            text_classifiers.check_classifier_files(Path(path))

    def reads(self, output: Path, settings: ZeroshotClassificationSettings) -> tuple[Path, ...]:  # noqa: ARG002 - they may be anywhere
        """Return the loaded classifier files."""
        return tuple(Path(path) for path in settings.load_clfs)

    def predict(self, context: TaskContext, settings: ZeroshotClassificationSettings) -> ClassificationPrediction:
        """Embed the images and compute one vector per class."""
        info, place = context.info, None
        duplicates = duplicate_classes(info)
        if settings.merge_duplicate_classes:
            info, place = merge_duplicates(info)
            duplicates = None
        classes, templates, notices = self._classes(info, context, settings)
        images = encode_images(context)
        if images.entries and classes.shape[1] != images.vectors.shape[1]:
            raise DataError(
                "The classifier has {shape} dimensions and the model {shape2}.",
                advice="{--load_clfs} takes files written by {--save_clf} with the same model.",
                shape=classes.shape[1],
                shape2=images.vectors.shape[1],
            )
        return ClassificationPrediction(
            info=info,
            entries=images.entries if place is None else tuple(_renumbered(entry, place) for entry in images.entries),
            failures=images.failures,
            images=images.vectors,
            classes=classes,
            notices=(*((duplicates,) if duplicates else ()), *notices, *images.notices),
            logit_scale=context.encoder.card.logit_scale,
            logit_bias=context.encoder.card.logit_bias,
            by_template=templates,
        )

    def _classes(
        self, info: DatasetInfo, context: TaskContext, settings: ZeroshotClassificationSettings
    ) -> tuple[Vectors, Vectors | None, tuple[Notice, ...]]:
        """Compute one vector per class and, if templates are compared, one per class and template."""
        if settings.load_clfs:
            paths = [Path(path) for path in settings.load_clfs]
            classes, notices = text_classifiers.load_mean_classifier(
                paths, context.encoder.card.fingerprint, info.classnames
            )
            return classes, None, notices
        texts = class_texts(info)
        vectors, notices = encode_texts(context, [text for group in texts for text in group])
        classes = class_vectors(vectors, texts)
        if settings.save_clf:
            fingerprint = context.encoder.card.fingerprint
            text_classifiers.save_classifier(classes, Path(settings.save_clf), fingerprint, info.classnames)
        wanted = wants_prompt_study(settings.prompt_sensitivity, info, len(context.listed))
        return classes, by_template(vectors, info) if wanted else None, notices

    def score(self, prediction: ClassificationPrediction, settings: ZeroshotClassificationSettings) -> Outcome:
        """Score single-label or multi-label, depending on the dataset."""
        need_samples(prediction)
        if prediction.info.kind != "multilabel":
            return _score_one(prediction, settings)
        found = score_multilabel(prediction.info, prediction.entries, prediction.images, prediction.classes, settings)
        return replace(found, notices=(*prediction.notices, *found.notices))


def _renumbered(entry: Entry, place: NDArray[np.int64]) -> Entry:
    labels = tuple(dict.fromkeys(int(place[label]) for label in entry.labels))
    return replace(entry, label=None if entry.label is None else int(place[entry.label]), labels=labels)


def _score_one(prediction: ClassificationPrediction, settings: ZeroshotClassificationSettings) -> Outcome:
    n_classes = len(prediction.info.classnames)
    labels = labels_of(prediction.entries)
    ranking = rank_labels(prediction.images, prediction.classes, labels, prediction.info.classnames)
    correct = ranking.ranks == 1
    full = wants_full(settings)
    chance = LabelChance(partial(stats.chance_accuracy, n_classes), recall=1 / n_classes)
    metrics = label_metrics(ranking, labels, n_classes, chance, full=full)
    if settings.main_metric == F1_DATACOMP:
        metrics[F1_DATACOMP] = Metric(f1_macro(predicted_classes(ranking, labels), labels), n=len(labels))
    details: dict[str, Any] = prompts_of(prediction.info) | {
        "per_class_recall": per_class_recall(correct, labels, n_classes)
    }
    if prediction.by_template is not None:
        details["prompt_sensitivity"] = prompt_study(
            prediction.images, prediction.by_template, labels, prediction.info, float(correct.mean())
        )
    records = label_records(prediction.entries, ranking)
    if prediction.logit_scale is not None:
        said = likelihoods(prediction.images, prediction.classes, labels, prediction.logit_scale, prediction.logit_bias)
        details["calibration"] = _calibration(said, correct, prediction)
        if full:
            metrics |= _likelihood_metrics(details["calibration"], len(labels))
            for record, nll, brier in zip(records, said.nll, said.brier, strict=True):
                record |= {"nll": float(nll), "brier": float(brier)}
    facts, few = no_acc5(n_classes)
    return Outcome(
        metrics=metrics,
        records=records,
        notices=(*prediction.notices, *label_notices(ranking), *few),
        details=details,
        facts=facts,
    )


def _calibration(said: Likelihoods, correct: NDArray[np.bool_], prediction: ClassificationPrediction) -> dict[str, Any]:
    """Describe the calibration of the model's own probabilities."""
    return {
        "ece": expected_calibration_error(said.confidence, correct),
        "adaptive_ece": adaptive_calibration_error(said.confidence, correct),
        "nll": float(said.nll.mean()),
        "brier": float(said.brier.mean()),
        "form": "softmax" if prediction.logit_bias is None else "sigmoid",
        "scale": prediction.logit_scale,
        "bias": prediction.logit_bias,
        "bins": reliability(said.confidence, correct),
    }


def _likelihood_metrics(calibration: Mapping[str, Any], n: int) -> dict[str, Metric]:
    """Convert the calibration to metrics; the calibration error is not a mean over samples."""
    means = {"ece": None, "nll": MeanOf("nll"), "brier": MeanOf("brier")}
    return {
        name: Metric(calibration[name], n=n, lower_is_better=True, mean_of=mean_of, points=name == "nll")
        for name, mean_of in means.items()
    }
