"""How much zero-shot accuracy depends on the wording: each template alone against all of them together."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eyechart.metrics.classification import first_choices
from eyechart.metrics.vectors import Vectors
from eyechart.types import DatasetInfo

MODES = ("auto", "yes", "no")
AUTO_SCORES = 200_000_000
"""With ``auto`` the study is made while it needs no more than this many scores: some seconds, no image encoded."""


def is_wanted(mode: str, info: DatasetInfo, samples: int) -> bool:
    """Tell whether templates can be compared here, and are to be."""
    if mode == "no" or len(info.templates) < 2 or info.class_prompts or info.kind != "classification":
        return False
    return mode == "yes" or samples * len(info.classnames) * len(info.templates) <= AUTO_SCORES


def by_template(text_vectors: Vectors, info: DatasetInfo) -> Vectors:
    """Sort unit vectors of texts (class after class, template after template) into one classifier per template."""
    classes, templates = len(info.classnames), len(info.templates)
    return text_vectors.reshape(classes, templates, -1).transpose(1, 0, 2)


def study(
    images: Vectors, classifiers: Vectors, labels: NDArray[np.int64], info: DatasetInfo, ensemble: float
) -> dict[str, Any]:
    """Return the accuracy of each template, that of the ensemble, what it gains over the mean, and the spread."""
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
