"""Zero-shot classification: the class whose texts are most similar to the picture wins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from eyechart import stats
from eyechart.errors import DataError
from eyechart.metrics.classification import average_precision, per_class_recall, rank_labels
from eyechart.metrics.vectors import Vectors, unit
from eyechart.tasks import classifier_files
from eyechart.tasks.base import Material, Prediction, Task, need_samples
from eyechart.tasks.labelled import label_metrics, label_notices, label_records, labels_of, wants_full
from eyechart.tasks.prompts import check_template, class_texts, class_vectors, duplicate_classes
from eyechart.types import DatasetInfo, Metric, Notice, Outcome


@dataclass(frozen=True)
class ClassificationPrediction(Prediction):
    """Unit vectors of pictures and classes."""

    rows = ("images",)

    images: Vectors
    classes: Vectors
    notices: tuple[Notice, ...]


class ZeroshotClassification(Task):
    """acc1, acc5 (from five classes on) and mean_per_class_recall; with several labels, mean_average_precision."""

    name = "zeroshot_classification"
    version = 1
    kinds = frozenset({"classification", "multilabel"})

    def settings(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Pick where to save the text classifier and which ones to load instead of prompts."""
        return {key: options.get(key) for key in ("save_clf", "load_clfs", "metrics") if options.get(key)}

    def check(self, info: DatasetInfo, settings: Mapping[str, Any]) -> None:
        """Refuse a dataset without class names or prompts."""
        super().check(info, settings)
        if not info.classnames:
            raise DataError(
                f"{info.name}: no class names for language {info.language!r} in {info.source}.",
                advice="Add classnames.txt (one name a line), or use --custom_classname_file.",
            )
        for template in info.templates:
            check_template(template, info.source)
        class_texts(info)
        for path in settings.get("load_clfs") or ():
            classifier_files.check_exists(Path(path))

    def predict(self, material: Material, settings: Mapping[str, Any]) -> ClassificationPrediction:
        """Embed the pictures and make one vector per class."""
        info = material.info
        classes = self._classes(material, settings)
        pictures = material.model.images(material.listing)
        duplicates = duplicate_classes(info)
        return ClassificationPrediction(
            info=info,
            entries=material.listing.take(pictures.kept),
            failures=pictures.failures,
            images=unit(pictures.vectors),
            classes=classes,
            notices=(duplicates,) if duplicates else (),
        )

    def _classes(self, material: Material, settings: Mapping[str, Any]) -> Vectors:
        if settings.get("load_clfs"):
            return classifier_files.load_mean(
                [Path(path) for path in settings["load_clfs"]], len(material.info.classnames)
            )
        texts = class_texts(material.info)
        flat = [text for group in texts for text in group]
        classes = class_vectors(material.model.texts(flat, language=material.language), texts)
        if settings.get("save_clf"):
            classifier_files.save(classes, Path(settings["save_clf"]))
        return classes

    def score(self, prediction: ClassificationPrediction, settings: Mapping[str, Any]) -> Outcome:
        """Score one label or several, as the dataset says."""
        need_samples(prediction)
        return _score_many(prediction) if prediction.info.kind == "multilabel" else _score_one(prediction, settings)


def _score_one(prediction: ClassificationPrediction, settings: Mapping[str, Any]) -> Outcome:
    n_classes = len(prediction.info.classnames)
    labels = labels_of(prediction.entries)
    ranking = rank_labels(prediction.images, prediction.classes, labels)
    return Outcome(
        metrics=label_metrics(
            ranking, labels, n_classes, partial(stats.chance_accuracy, n_classes), full=wants_full(settings)
        ),
        records=label_records(prediction.entries, ranking),
        notices=(*prediction.notices, *label_notices(ranking)),
        details=_details(prediction.info)
        | {"per_class_recall": per_class_recall(ranking.ranks == 1, labels, n_classes)},
    )


def _score_many(prediction: ClassificationPrediction) -> Outcome:
    n_classes = len(prediction.info.classnames)
    present = np.zeros((len(prediction.entries), n_classes), bool)
    for row, entry in enumerate(prediction.entries):
        present[row, list(entry.labels)] = True
    scores = prediction.images @ prediction.classes.T
    judged = [i for i in range(n_classes) if present[:, i].any()]
    if not judged:
        raise DataError(f"{prediction.info.name}: no picture has any label, so there is nothing to rank.")
    precision = {i: average_precision(scores[:, i], present[:, i]) for i in judged}
    interval = stats.average_precision_interval(scores[:, judged], present[:, judged])
    value = float(np.mean(list(precision.values())))
    metric = Metric(value, interval.low, interval.high, float(present[:, judged].mean()), len(prediction.entries))
    left_out = n_classes - len(judged)
    notices = [Notice("class_without_positives", left_out, f"{left_out} classes have no positive and are left out.")]
    records = [
        {"id": entry.id, "labels": list(entry.labels), "scores": [round(float(value), 6) for value in row]}
        for entry, row in zip(prediction.entries, scores, strict=True)
    ]
    return Outcome(
        metrics={"mean_average_precision": metric},
        records=records,
        notices=(*prediction.notices, *(notices if left_out else ())),
        details=_details(prediction.info) | {"per_class_ap": precision},
    )


def _details(info: DatasetInfo) -> dict[str, Any]:
    return {"classnames": list(info.classnames), "templates": list(info.templates)}
