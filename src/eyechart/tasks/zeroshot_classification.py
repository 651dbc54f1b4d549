"""Zero-shot classification with one or several labels per image, and the study of single prompts."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eyechart import stats
from eyechart.errors import DataError, EyechartError, LanguageError, UsageError
from eyechart.languages import is_main
from eyechart.manifest import Entry
from eyechart.metrics.classification import (
    adaptive_calibration_error,
    average_precision,
    expected_calibration_error,
    f1_macro,
    first_choices,
    likelihoods,
    predicted_classes,
    rank_labels,
    reliability,
)
from eyechart.metrics.vectors import Vectors, zero_rows
from eyechart.settings.tasks import ZeroshotClassificationSettings
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
from eyechart.tasks.label_metrics import label_outcome, labels_of
from eyechart.tasks.text_classifiers import (
    check_template,
    class_texts,
    class_vectors,
    duplicate_classes,
    load_mean_classifier,
    merge_duplicates,
    prompts_of,
    save_classifier,
)
from eyechart.types import DatasetInfo, Input, MeanOf, Metric, Notice, Outcome

EMPTY_CLASSES = {
    "leave_out": ("mean_average_precision", "are left out"),
    "zero": ("mean_average_precision_of_all_classes", "count 0"),
}
"""How classes without positives count towards mAP, by Eyechart's and CLIP_benchmark's convention: the function that the
report computes it with, and words for the notice."""
AUTO_SCORES = 200_000_000
"""With ``--prompt_sensitivity auto`` templates are compared if that needs at most this many scores: some seconds, no
image is encoded."""
F1_DATACOMP = "F1-macro_all"
"""DataComp's name for f1_macro, its main metric for iWildCam."""


@dataclass(frozen=True)
class ClassificationPrediction(Prediction):
    """Unit vectors of images and classes."""

    rows = ("images",)

    images: Vectors
    classes: Vectors
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
    inputs = ("image", "text")
    measures = "classification"
    records = {"classification": "label", "multilabel": "labels"}  # noqa: RUF012 - declared as ClassVar above
    Settings = ZeroshotClassificationSettings

    def check(self, info: DatasetInfo, settings: ZeroshotClassificationSettings) -> None:
        """Reject a dataset without class names or prompts."""
        super().check(info, settings)
        if not info.classnames:
            kind: type[EyechartError] = DataError if is_main(info.language) else LanguageError
            raise kind(
                "{name}: no class names for language {language!r} in {source}.",
                advice="Add classnames{suffix}.txt (one name per line), or use {--custom_classname_file}.",
                name=info.name,
                language=info.language,
                source=info.source,
                suffix="" if is_main(info.language) else f".{info.language}",
            )
        for template in info.templates:
            check_template(template, info.source)
        class_texts(info)
        for path in settings.load_clfs:
            if not Path(path).is_file():
                raise UsageError(
                    "The classifier file {path} does not exist.",
                    advice="{--load_clfs} takes files written by {--save_clf} of Eyechart or CLIP_benchmark.",
                    path=path,
                )

    def inputs_of(self, info: DatasetInfo, settings: ZeroshotClassificationSettings) -> tuple[Input, ...]:
        """Leave out texts if classifiers are loaded."""
        return ("image",) if settings.load_clfs else super().inputs_of(info, settings)

    def reads(self, output: Path, settings: ZeroshotClassificationSettings) -> tuple[Path, ...]:  # noqa: ARG002 - they may be anywhere
        """Return the loaded classifier files."""
        return tuple(Path(path) for path in settings.load_clfs)

    def predict(self, context: TaskContext, settings: ZeroshotClassificationSettings) -> ClassificationPrediction:
        """Embed the images and compute one vector per class."""
        info, place, duplicates = context.info, None, duplicate_classes(context.info)
        if settings.merge_duplicate_classes:
            info, place = merge_duplicates(info)
            duplicates = ()
        classes, templates, notices = self._classes(info, context, settings)
        images = encode_images(context, prompt=settings.query_prompt)
        if images.entries and classes.shape[1] != images.vectors.shape[1]:
            raise DataError(
                "The classifier has {shape} dimensions and the model {shape2}.",
                advice="{--load_clfs} takes files written by {--save_clf} with the same model.",
                shape=classes.shape[1],
                shape2=images.vectors.shape[1],
            )
        card = context.encoder.card
        return ClassificationPrediction(
            info=info,
            entries=images.entries if place is None else tuple(_renumbered(entry, place) for entry in images.entries),
            failures=images.failures,
            images=images.vectors,
            classes=classes,
            notices=(*duplicates, *notices, *images.notices),
            logit_scale=card.logit_scale,
            logit_bias=card.logit_bias,
            by_template=templates,
        )

    def _classes(
        self, info: DatasetInfo, context: TaskContext, settings: ZeroshotClassificationSettings
    ) -> tuple[Vectors, Vectors | None, tuple[Notice, ...]]:
        """Compute one vector per class and, if templates are compared, one per template and class."""
        fingerprint = context.encoder.card.fingerprint
        if settings.load_clfs:
            paths = [Path(path) for path in settings.load_clfs]
            classes, notices = load_mean_classifier(paths, fingerprint, info.classnames)
            return classes, None, notices
        texts = class_texts(info)
        written = [text for group in texts for text in group]
        vectors, notices = encode_texts(context, written, prompt=settings.document_prompt)
        classes = class_vectors(vectors, texts, context.encoder.unit)
        if settings.save_clf:
            save_classifier(classes, Path(settings.save_clf), fingerprint, info.classnames)
        mode, n_classes, n_templates = settings.prompt_sensitivity, len(info.classnames), len(info.templates)
        if mode == "no" or n_templates < 2 or info.class_prompts or info.kind != "classification":
            return classes, None, notices
        if mode == "auto" and len(context.listed) * n_classes * n_templates > AUTO_SCORES:
            return classes, None, notices
        return classes, vectors.reshape(n_classes, n_templates, -1).transpose(1, 0, 2), notices

    def score(self, prediction: ClassificationPrediction, settings: ZeroshotClassificationSettings) -> Outcome:
        """Score single-label or multi-label, depending on the dataset."""
        need_samples(prediction)
        if prediction.info.kind == "multilabel":
            return _score_multilabel(prediction, settings)
        info, images, classes = prediction.info, prediction.images, prediction.classes
        n_classes, labels = len(info.classnames), labels_of(prediction.entries)
        ranking = rank_labels(images, classes, labels, info.classnames)
        outcome = label_outcome(
            prediction,
            ranking,
            n_classes,
            settings,
            chance=partial(stats.chance_accuracy, n_classes),
            chance_recall=1 / n_classes,
        )
        metrics, details = dict(outcome.metrics), {**prompts_of(info), **outcome.details}
        if settings.main_metric == F1_DATACOMP:
            metrics[F1_DATACOMP] = Metric(f1_macro(predicted_classes(ranking, labels), labels), n=len(labels))
        if prediction.by_template is not None:
            ensemble, names = float((ranking.ranks == 1).mean()), info.classnames
            alone = [float(first_choices(images, one, labels, names).mean()) for one in prediction.by_template]
            mean = float(np.mean(alone))
            details["prompt_sensitivity"] = {
                "templates": list(info.templates),
                "acc1": alone,
                "ensemble": ensemble,
                "mean": mean,
                "gain": ensemble - mean,
                "std": float(np.std(alone, ddof=1)),
                "min": min(alone),
                "max": max(alone),
            }
        records = outcome.records
        if prediction.logit_scale is not None:
            said = likelihoods(images, classes, labels, prediction.logit_scale, prediction.logit_bias)
            correct = ranking.ranks == 1
            calibration: dict[str, Any] = {
                "ece": expected_calibration_error(said.confidence, correct),
                "adaptive_ece": adaptive_calibration_error(said.confidence, correct),
                "nll": float(said.nll.mean()),
                "brier": float(said.brier.mean()),
                "form": "softmax" if prediction.logit_bias is None else "sigmoid",
                "scale": prediction.logit_scale,
                "bias": prediction.logit_bias,
                "bins": reliability(said.confidence, correct),
            }
            details["calibration"] = calibration
            if settings.metrics == "full":
                # The calibration error is not a mean over samples.
                for name, mean_of in (("ece", None), ("nll", MeanOf("nll")), ("brier", MeanOf("brier"))):
                    value, n = calibration[name], len(labels)
                    metrics[name] = Metric(value, n=n, lower_is_better=True, mean_of=mean_of, points=name == "nll")
                records = [
                    {**record, "nll": float(nll), "brier": float(brier)}
                    for record, nll, brier in zip(records, said.nll, said.brier, strict=True)
                ]
        return replace(outcome, metrics=metrics, records=records, details=details)


def _renumbered(entry: Entry, place: NDArray[np.int64]) -> Entry:
    labels = tuple(dict.fromkeys(int(place[label]) for label in entry.labels))
    return replace(entry, label=None if entry.label is None else int(place[entry.label]), labels=labels)


def _score_multilabel(prediction: ClassificationPrediction, settings: ZeroshotClassificationSettings) -> Outcome:
    """Rank the images for each class and average the average precision over classes."""
    info, entries, n_classes = prediction.info, prediction.entries, len(prediction.info.classnames)
    present = np.zeros((len(entries), n_classes), bool)
    for row, entry in enumerate(entries):
        present[row, list(entry.labels)] = True
    scores = prediction.images @ prediction.classes.T
    scores[zero_rows(prediction.images)] = -1  # below every other image for every class
    judged = [i for i in range(n_classes) if present[:, i].any()]
    if not judged:
        raise DataError("{name}: no image has any label, so there is nothing to rank.", name=info.name)
    precision = {i: average_precision(scores[:, i], present[:, i]) for i in judged}
    function, said = EMPTY_CLASSES[settings.empty_classes]
    share = len(judged) / n_classes if settings.empty_classes == "zero" else 1.0
    interval = stats.average_precision_interval(scores[:, judged], present[:, judged])
    metric = make_metric(
        share * float(np.mean(list(precision.values()))),
        interval and stats.Interval(share * interval.low, share * interval.high),
        chance=share * float(present[:, judged].mean()),
        n=len(entries),
        primary=True,
        function=function,
    )
    empty = "{n} classes have no positives and {said}."
    return Outcome(
        metrics={"mean_average_precision": metric},
        records=[
            {"id": entry.id, "labels": list(entry.labels), "scores": [round(float(value), 8) for value in row]}
            for entry, row in zip(entries, scores, strict=True)
        ],
        notices=(
            *prediction.notices,
            *counted("class_without_positives", n_classes - len(judged), empty, said=said),
        ),
        details=prompts_of(info) | {"per_class_ap": precision},
    )
