"""Clustering: do the images of a class lie together, without a name for the class and without a training split?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eyechart import stats
from eyechart.learn.kmeans import k_means
from eyechart.metrics.clustering import (
    adjusted_rand_index,
    best_matching,
    cluster_accuracy,
    contingency,
    normalised_mutual_information,
)
from eyechart.tasks.base import Material, Prediction, Task, need_samples
from eyechart.tasks.encoded import encode_images
from eyechart.tasks.labelled import labels_of
from eyechart.tasks.measured import measured
from eyechart.types import MeanOf, Metric, Notice, Outcome

SHUFFLES = 20
"""Chance is the mean over this many random orders of the labels."""


@dataclass(frozen=True)
class ClusteringPrediction(Prediction):
    """The cluster of each sample."""

    rows = ("clusters",)

    clusters: NDArray[np.int64]
    inertia: float
    notices: tuple[Notice, ...]


class Clustering(Task):
    """nmi, ari and cluster_acc of k-means with as many clusters as there are classes.

    Mutual information and accuracy under the best matching are above zero for random clusters too: their chance level
    is what the same clusters get against shuffled labels.
    """

    name = "clustering"
    kinds = frozenset({"classification"})
    measures = "clustering"
    records = "question"

    def settings(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Pick the seed."""
        return {"seed": options.get("seed", 0)}

    def predict(self, material: Material, settings: Mapping[str, Any]) -> ClusteringPrediction:
        """Embed the images and cluster them; labels only say how many clusters there are."""
        images = encode_images(material)
        wanted = len(np.unique(labels_of(images.entries)))
        found = k_means(images.vectors, wanted, settings["seed"]) if images.entries else None
        return ClusteringPrediction(
            info=material.info,
            entries=images.entries,
            failures=images.failures,
            clusters=found.assignment if found else np.empty(0, np.int64),
            inertia=found.inertia if found else 0.0,
            notices=images.notices,
        )

    def score(self, prediction: ClusteringPrediction, settings: Mapping[str, Any]) -> Outcome:
        """Compare clusters with classes."""
        need_samples(prediction)
        labels = labels_of(prediction.entries)
        table = contingency(prediction.clusters, labels)
        n, accuracy = len(labels), cluster_accuracy(table)
        rng = np.random.default_rng(settings["seed"])
        shuffled = [contingency(prediction.clusters, rng.permutation(labels)) for _ in range(SHUFFLES)]
        nmi_chance, acc_chance = (
            float(np.mean([measure(other) for other in shuffled]))
            for measure in (normalised_mutual_information, cluster_accuracy)
        )
        return Outcome(
            metrics={
                "nmi": Metric(normalised_mutual_information(table), chance=nmi_chance, n=n, primary=True),
                "ari": Metric(adjusted_rand_index(table), chance=float(table.shape == (1, 1)), n=n),
                "cluster_acc": measured(
                    accuracy,
                    stats.proportion(round(accuracy * n), n),
                    chance=acc_chance,
                    n=n,
                    mean_of=MeanOf("correct"),
                ),
            },
            records=_records(prediction, labels, table),
            notices=prediction.notices,
            details={"clusters": int(table.shape[0]), "inertia": prediction.inertia},
        )


def _records(
    prediction: ClusteringPrediction, labels: NDArray[np.int64], table: NDArray[np.int64]
) -> list[dict[str, Any]]:
    """Say for each sample which class its cluster stands for under the best matching, if any."""
    clusters, classes = np.unique(prediction.clusters), np.unique(labels)
    stands_for = {int(clusters[row]): int(classes[column]) for row, column in zip(*best_matching(table), strict=True)}
    return [
        {
            "id": entry.id,
            "label": entry.label,
            "cluster": int(cluster),
            "prediction": stands_for.get(int(cluster)),
            "correct": stands_for.get(int(cluster)) == entry.label,
        }
        for entry, cluster in zip(prediction.entries, prediction.clusters, strict=True)
    ]
