"""Tasks on image vectors alone: clustering, and semantic similarity of image pairs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eyechart import stats
from eyechart.errors import DataError
from eyechart.learn.nearest import k_means
from eyechart.manifest import Entry
from eyechart.metrics.agreement import (
    adjusted_rand_index,
    best_matching,
    cluster_accuracy,
    contingency,
    normalised_mutual_information,
    pearson,
    spearman,
)
from eyechart.metrics.vectors import Floats, Vectors
from eyechart.settings.tasks import ClusteringSettings, PromptedSettings
from eyechart.tasks.base import Prediction, Task, TaskContext, encode_images, make_metric, need_samples
from eyechart.tasks.label_metrics import labels_of
from eyechart.types import DatasetInfo, MeanOf, Metric, Notice, Outcome

SHUFFLES = 20
"""Number of random label permutations that estimate chance."""


@dataclass(frozen=True)
class ClusteringPrediction(Prediction):
    """The cluster of each sample."""

    rows = ("clusters",)

    clusters: NDArray[np.int64]
    inertia: float


class Clustering(Task):
    """nmi, ari and cluster_acc of k-means with as many clusters as there are classes.

    Mutual information and accuracy under the best matching are above zero for random clusters too: their chance level
    is the score of the same clusters against shuffled labels.
    """

    name = "clustering"
    Settings = ClusteringSettings
    kinds = frozenset({"classification"})
    inputs = ("image",)
    measures = "clustering"
    records = "question"

    def predict(self, context: TaskContext, settings: ClusteringSettings) -> ClusteringPrediction:
        """Embed the images and cluster them; labels only determine the number of clusters."""
        images = encode_images(context, prompt=settings.query_prompt)
        wanted = len(np.unique(labels_of(images.entries)))
        found = k_means(images.vectors, wanted, settings.seed) if images.entries else None
        return ClusteringPrediction(
            info=context.info,
            entries=images.entries,
            failures=images.failures,
            clusters=found.assignment if found else np.empty(0, np.int64),
            inertia=found.inertia if found else 0.0,
            notices=images.notices,
        )

    def score(self, prediction: ClusteringPrediction, settings: ClusteringSettings) -> Outcome:
        """Compare clusters with classes."""
        need_samples(prediction)
        labels = labels_of(prediction.entries)
        table = contingency(prediction.clusters, labels)
        n, accuracy = len(labels), cluster_accuracy(table)
        rng = np.random.default_rng(settings.seed)
        shuffled = [contingency(prediction.clusters, rng.permutation(labels)) for _ in range(SHUFFLES)]
        nmi_chance, acc_chance = (
            float(np.mean([measure(other) for other in shuffled]))
            for measure in (normalised_mutual_information, cluster_accuracy)
        )
        # Each cluster stands for the class it is matched with, if any.
        clusters, classes = np.unique(prediction.clusters), np.unique(labels)
        matched = zip(*best_matching(table), strict=True)
        stands_for = {int(clusters[row]): int(classes[column]) for row, column in matched}
        return Outcome(
            metrics={
                "nmi": Metric(normalised_mutual_information(table), chance=nmi_chance, n=n, primary=True),
                "ari": Metric(adjusted_rand_index(table), chance=float(table.shape == (1, 1)), n=n),
                "cluster_acc": make_metric(
                    accuracy,
                    stats.proportion(round(accuracy * n), n),
                    chance=acc_chance,
                    n=n,
                    mean_of=MeanOf("correct"),
                ),
            },
            records=[
                {
                    "id": entry.id,
                    "label": entry.label,
                    "cluster": int(cluster),
                    "prediction": stands_for.get(int(cluster)),
                    "correct": stands_for.get(int(cluster)) == entry.label,
                }
                for entry, cluster in zip(prediction.entries, prediction.clusters, strict=True)
            ],
            notices=prediction.notices,
            details={"clusters": int(table.shape[0]), "inertia": prediction.inertia},
        )


@dataclass(frozen=True)
class SimilarityPrediction(Prediction):
    """Unit vectors of the images."""

    rows = ("images",)

    images: Vectors


class VisualSts(Task):
    """spearman and pearson of cosine similarity against the given scores (MIEB's Visual STS)."""

    name = "visual_sts"
    Settings = PromptedSettings
    kinds = frozenset({"similarity"})
    inputs = ("image",)
    measures = "similarity"

    def predict(self, context: TaskContext, settings: PromptedSettings) -> SimilarityPrediction:
        """Embed the images; a pair with a failed image is dropped."""
        images = encode_images(context, prompt=settings.query_prompt)
        alone = [places[0] for places in _pairs(images.entries).values() if len(places) == 1]  # also due to ``--limit``
        images = images.without({images.entries[i].id: "the other image of the pair is missing" for i in alone})
        return SimilarityPrediction(
            context.info, images.entries, images.failures, images.vectors, notices=images.notices
        )

    def score(self, prediction: SimilarityPrediction, settings: PromptedSettings) -> Outcome:  # noqa: ARG002
        """Correlate over pairs."""
        need_samples(prediction)
        pairs = _pairs(prediction.entries)
        places = np.array(list(pairs.values()))
        cosines = (prediction.images[places[:, 0]] * prediction.images[places[:, 1]]).sum(axis=1)
        truth = np.array([prediction.entries[first].meta["score"] for first, _ in places], np.float64)
        return similarity_outcome(prediction.info, list(pairs), cosines, truth, prediction.notices)


def similarity_outcome(
    info: DatasetInfo,
    ids: Sequence[str],
    cosines: Vectors | Floats,
    truth: Floats,
    notices: Sequence[Notice] = (),
    prefix: str = "",
) -> Outcome:
    """Correlate the cosines of pairs with their given scores."""
    if len(ids) < 3:
        raise DataError("{name}: {n} pairs are too few for a correlation.", name=info.name, n=len(ids))
    if np.ptp(truth) == 0:
        raise DataError(
            "{name}: all pairs have the score {first:g}, so the correlation is undefined.",
            name=info.name,
            first=truth[0],
        )
    return Outcome(
        metrics={
            f"{prefix}{name}": make_metric(
                measure(cosines, truth),
                stats.correlation_interval(cosines, truth, of_ranks=measure is spearman),
                chance=0.0,
                n=len(truth),
                primary=measure is spearman,
                function=name,
            )
            for name, measure in (("spearman", spearman), ("pearson", pearson))
        },
        records=[
            {"id": pair, "score": float(score), "cosine": float(cosine)}
            for pair, score, cosine in zip(ids, truth, cosines, strict=True)
        ],
        notices=notices,
    )


def _pairs(entries: tuple[Entry, ...]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for i, entry in enumerate(entries):
        found.setdefault(str(entry.meta["pair"]), []).append(i)
    return found
