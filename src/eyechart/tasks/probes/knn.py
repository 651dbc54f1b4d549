"""Nearest neighbours in the training split: how well classes are separated without learning anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eyechart.errors import UsageError
from eyechart.learn.neighbours import neighbour_votes
from eyechart.metrics.vectors import Vectors, unit
from eyechart.tasks.probes.probe import Probe
from eyechart.tasks.probes.training import Features, Learned


class Knn(Probe):
    """knn_acc1, knn_acc5 and knn_mean_per_class_recall of a vote of the k nearest training images by cosine.

    A vote counts exp(cosine / 0.07), as in Wu et al. 2018 and DINO. A validation set is not used.
    """

    name = "knn"
    prefix = "knn_"

    def settings(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Add the number of neighbours."""
        k = options.get("knn_k", 20)
        if k < 1:
            raise UsageError(f"--knn_k must be 1 or more, not {k}.")
        return super().settings(options) | {"val_split": None, "val_proportion": None, "knn_k": k}

    def learn(self, train: Features, val: Features | None, settings: Mapping[str, Any], device: str) -> Learned:  # noqa: ARG002 - nothing to choose
        """Remember the training images."""
        vectors, k = unit(train.vectors), settings["knn_k"]

        def votes(queries: Vectors) -> Vectors:
            return neighbour_votes(vectors, train.labels, unit(queries), k)

        return Learned(votes, {"k": k})
