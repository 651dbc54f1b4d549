"""Zero-shot classification: the class whose texts are most similar to the image wins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eyechart import stats
from eyechart.errors import DataError, LanguageError, UsageError
from eyechart.languages import is_main
from eyechart.manifest import Entry
from eyechart.metrics.calibration import (
    Likelihoods,
    adaptive_calibration_error,
    expected_calibration_error,
    likelihoods,
    reliability,
)
from eyechart.metrics.classification import (
    f1_macro,
    per_class_recall,
    predicted_classes,
    rank_labels,
)
from eyechart.metrics.vectors import Vectors
from eyechart.tasks import classifier_files, prompt_study
from eyechart.tasks.base import Material, Prediction, Task, need_samples
from eyechart.tasks.encoded import encode_images, encode_texts
from eyechart.tasks.labelled import (
    LabelChance,
    label_metrics,
    label_notices,
    label_records,
    labels_of,
    no_acc5,
    wants_full,
)
from eyechart.tasks.many_labels import LEFT_OUT, check_rule, score_many
from eyechart.tasks.prompts import (
    check_template,
    class_texts,
    class_vectors,
    duplicate_classes,
    merge_duplicates,
    prompts_of,
)
from eyechart.types import DatasetInfo, MeanOf, Metric, Notice, Outcome, RecordForm

F1_DATACOMP = "F1-macro_all"
"""DataComp's name of f1_macro, its main metric for iWildCam."""


@dataclass(frozen=True)
class ClassificationPrediction(Prediction):
    """Unit vectors of images and classes."""

    rows = ("images",)

    images: Vectors
    classes: Vectors
    notices: tuple[Notice, ...]
    logit_scale: float | None = None
    """The model's own scale and bias; without a scale it says nothing about probabilities."""
    logit_bias: float | None = None
    by_template: Vectors | None = None
    """One classifier per template, shape (templates, classes, d), if they are to be compared."""


class ZeroshotClassification(Task):
    """acc1, acc5 (from five classes on) and mean_per_class_recall; with several labels, mean_average_precision.

    The details also hold the accuracy of each template alone (prompt_sensitivity) and, where the model has a scale of
    its own, its calibration; both come from the vectors that are there.
    """

    name = "zeroshot_classification"
    version = 2
    kinds = frozenset({"classification", "multilabel"})
    measures = "classification"

    def settings(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Pick where to save the text classifier, which ones to load instead of prompts, and what to add."""
        study = options.get("prompt_sensitivity", "auto")
        if study not in prompt_study.MODES:
            raise UsageError(f"--prompt_sensitivity must be one of {', '.join(prompt_study.MODES)}, not {study!r}.")
        if options.get("save_clf") and options.get("load_clfs"):
            raise UsageError("--save_clf has nothing to write where --load_clfs says what to read.")
        check_rule(options.get("empty_classes", LEFT_OUT))
        chosen = ("save_clf", "load_clfs", "metrics", "main_metric", "merge_duplicate_classes", "empty_classes")
        return {key: options[key] for key in chosen if options.get(key)} | {"prompt_sensitivity": study}

    def check(self, info: DatasetInfo, settings: Mapping[str, Any]) -> None:
        """Refuse a dataset without class names or prompts."""
        super().check(info, settings)
        if not info.classnames:
            raise (DataError if is_main(info.language) else LanguageError)(
                f"{info.name}: no class names for language {info.language!r} in {info.source}.",
                advice=f"Add classnames{'' if is_main(info.language) else f'.{info.language}'}.txt (one name a line), "
                "or use --custom_classname_file.",
            )
        for template in info.templates:
            check_template(template, info.source)
        class_texts(info)
        for path in settings.get("load_clfs") or ():
            classifier_files.check_exists(Path(path))

    def reads(self, output: Path, settings: Mapping[str, Any]) -> tuple[Path, ...]:  # noqa: ARG002 - they may be anywhere
        """Name the classifiers that are loaded."""
        return tuple(Path(path) for path in settings.get("load_clfs", ()))

    def predict(self, material: Material, settings: Mapping[str, Any]) -> ClassificationPrediction:
        """Embed the images and make one vector per class."""
        info, place = material.info, None
        duplicates = duplicate_classes(info)
        if settings.get("merge_duplicate_classes"):
            info, place = merge_duplicates(info)
            duplicates = None
        classes, templates, notices = self._classes(info, material, settings)
        images = encode_images(material)
        if images.entries and classes.shape[1] != images.vectors.shape[1]:
            raise DataError(
                f"The classifier has {classes.shape[1]} dimensions and the model {images.vectors.shape[1]}.",
                advice="--load_clfs takes files that --save_clf wrote with the same model.",
            )
        return ClassificationPrediction(
            info=info,
            entries=images.entries if place is None else tuple(_renumbered(entry, place) for entry in images.entries),
            failures=images.failures,
            images=images.vectors,
            classes=classes,
            notices=(*((duplicates,) if duplicates else ()), *notices, *images.notices),
            logit_scale=material.encoder.card.logit_scale,
            logit_bias=material.encoder.card.logit_bias,
            by_template=templates,
        )

    def _classes(
        self, info: DatasetInfo, material: Material, settings: Mapping[str, Any]
    ) -> tuple[Vectors, Vectors | None, tuple[Notice, ...]]:
        """Make one vector per class and, if templates are to be compared, one per class and template."""
        if settings.get("load_clfs"):
            paths = [Path(path) for path in settings["load_clfs"]]
            classes, notices = classifier_files.load_mean(paths, material.encoder.card.fingerprint, info.classnames)
            return classes, None, notices
        texts = class_texts(info)
        vectors, notices = encode_texts(material, [text for group in texts for text in group])
        classes = class_vectors(vectors, texts)
        if settings.get("save_clf"):
            fingerprint = material.encoder.card.fingerprint
            classifier_files.save(classes, Path(settings["save_clf"]), fingerprint, info.classnames)
        wanted = prompt_study.is_wanted(settings.get("prompt_sensitivity", "auto"), info, len(material.listed))
        return classes, prompt_study.by_template(vectors, info) if wanted else None, notices

    def form_of(self, info: DatasetInfo) -> RecordForm:
        """Return whether records have one label or several."""
        return "labels" if info.kind == "multilabel" else "label"

    def score(self, prediction: ClassificationPrediction, settings: Mapping[str, Any]) -> Outcome:
        """Score one label or several, as the dataset says."""
        need_samples(prediction)
        return (
            score_many(prediction, settings)
            if prediction.info.kind == "multilabel"
            else _score_one(prediction, settings)
        )


def _renumbered(entry: Entry, place: NDArray[np.int64]) -> Entry:
    labels = tuple(dict.fromkeys(int(place[label]) for label in entry.labels))
    return replace(entry, label=None if entry.label is None else int(place[entry.label]), labels=labels)


def _score_one(prediction: ClassificationPrediction, settings: Mapping[str, Any]) -> Outcome:
    n_classes = len(prediction.info.classnames)
    labels = labels_of(prediction.entries)
    ranking = rank_labels(prediction.images, prediction.classes, labels, prediction.info.classnames)
    correct = ranking.ranks == 1
    full = wants_full(settings)
    chance = LabelChance(partial(stats.chance_accuracy, n_classes), recall=1 / n_classes)
    metrics = label_metrics(ranking, labels, n_classes, chance, full=full)
    if settings.get("main_metric") == F1_DATACOMP:
        metrics[F1_DATACOMP] = Metric(f1_macro(predicted_classes(ranking, labels), labels), n=len(labels))
    details: dict[str, Any] = prompts_of(prediction.info) | {
        "per_class_recall": per_class_recall(correct, labels, n_classes)
    }
    if prediction.by_template is not None:
        details["prompt_sensitivity"] = prompt_study.study(
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
    """Describe how far the model's own probabilities can be believed."""
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
    """Make metrics of the calibration; its error is no mean over samples."""
    means = {"ece": None, "nll": MeanOf("nll"), "brier": MeanOf("brier")}
    return {
        name: Metric(calibration[name], n=n, lower_is_better=True, mean_of=mean_of, points=name == "nll")
        for name, mean_of in means.items()
    }
