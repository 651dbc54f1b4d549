"""Scoring takes memory for the vectors, not for every pair of an image and a class."""

import tracemalloc

import numpy as np
import pytest

from eyechart.metrics.classification import first_choices, likelihoods, rank_labels
from eyechart.metrics.vectors import unit

N, CLASSES = 20_000, 200
SCORERS = {
    "rank_labels": rank_labels,
    "first_choices": first_choices,
    "likelihoods": lambda images, classes, labels: likelihoods(images, classes, labels, 100.0, None),
}


@pytest.mark.parametrize("name", SCORERS)
def test_the_score_matrix_never_exists_as_a_whole(name):
    rng = np.random.default_rng(0)
    images, classes = (unit(rng.standard_normal((n, 8)).astype(np.float32)) for n in (N, CLASSES))
    labels = rng.integers(0, CLASSES, N)

    tracemalloc.start()
    SCORERS[name](images, classes, labels)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < N * CLASSES * 4 / 2
