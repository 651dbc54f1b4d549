"""Similarity of images: does the cosine of two images follow how similar people find them?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eyechart import stats
from eyechart.errors import DataError
from eyechart.manifest import Entry
from eyechart.metrics.correlation import pearson, spearman
from eyechart.metrics.vectors import Vectors
from eyechart.tasks.base import Material, Prediction, Task, need_samples
from eyechart.tasks.encoded import encode_images
from eyechart.tasks.measured import measured
from eyechart.types import Metric, Notice, Outcome


@dataclass(frozen=True)
class SimilarityPrediction(Prediction):
    """Unit vectors of the images."""

    rows = ("images",)

    images: Vectors
    notices: tuple[Notice, ...]


class VisualSts(Task):
    """spearman and pearson of cosine similarity against the given scores (MIEB's Visual STS)."""

    name = "visual_sts"
    kinds = frozenset({"similarity"})
    measures = "similarity"

    def predict(self, material: Material, settings: Mapping[str, Any]) -> SimilarityPrediction:  # noqa: ARG002
        """Embed the images; a pair that lost one is left out."""
        images = encode_images(material)
        images = images.without(_halves(images.entries))
        return SimilarityPrediction(material.info, images.entries, images.failures, images.vectors, images.notices)

    def score(self, prediction: SimilarityPrediction, settings: Mapping[str, Any]) -> Outcome:  # noqa: ARG002
        """Correlate over pairs."""
        need_samples(prediction)
        pairs = _pairs(prediction.entries)
        if len(pairs) < 3:
            raise DataError(f"{prediction.info.name}: {len(pairs)} pairs are too few for a correlation.")
        places = np.array(list(pairs.values()))
        cosines = (prediction.images[places[:, 0]] * prediction.images[places[:, 1]]).sum(axis=1)
        truth = np.array([prediction.entries[first].meta["score"] for first, _ in places], np.float64)
        if np.ptp(truth) == 0:
            raise DataError(f"{prediction.info.name}: all pairs have the score {truth[0]:g}, so nothing can follow it.")
        return Outcome(
            metrics={
                name: replace(_correlation(measure, cosines, truth), primary=measure is spearman, function=name)
                for name, measure in (("spearman", spearman), ("pearson", pearson))
            },
            records=[
                {"id": pair, "score": float(score), "cosine": float(cosine)}
                for pair, score, cosine in zip(pairs, truth, cosines, strict=True)
            ],
            notices=prediction.notices,
        )


def _correlation(
    measure: Callable[[NDArray[Any], NDArray[Any]], float], cosines: NDArray[np.float32], truth: NDArray[np.float64]
) -> Metric:
    """Compute a correlation with its interval."""
    interval = stats.correlation_interval(cosines, truth, of_ranks=measure is spearman)
    return measured(measure(cosines, truth), interval, chance=0.0, n=len(truth))


def _pairs(entries: tuple[Entry, ...]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for i, entry in enumerate(entries):
        found.setdefault(str(entry.meta["pair"]), []).append(i)
    return found


def _halves(entries: tuple[Entry, ...]) -> dict[str, str]:
    """Find samples whose partner failed or was cut off by ``--limit``."""
    alone = [places[0] for places in _pairs(entries).values() if len(places) == 1]
    return {entries[i].id: "the other image of the pair is missing" for i in alone}
