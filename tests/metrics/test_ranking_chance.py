"""Chance levels equal the mean over random orders."""

import numpy as np
import pytest

from eyechart.metrics.retrieval import METRICS, NOT_FOUND, RelevantRanks
from eyechart.metrics.retrieval_chance import CHANCE


@pytest.mark.parametrize(("gallery", "found", "total"), [(30, 1, 1), (30, 4, 4), (12, 3, 5), (4, 4, 4)])
@pytest.mark.parametrize("name", METRICS)
def test_chance_is_what_random_orders_get(name, gallery, found, total):
    rng = np.random.default_rng(0)
    rounds = 20_000
    ranks = np.sort(rng.permuted(np.tile(np.arange(1, gallery + 1), (rounds, 1)), axis=1)[:, :found], axis=1)
    ranks = np.hstack([ranks, np.full((rounds, total - found), NOT_FOUND)])
    drawn = RelevantRanks(ranks.ravel(), np.ones(ranks.size), np.arange(0, ranks.size, total), np.zeros(rounds, bool))

    for k in (1, 3, 10, 100):
        values = METRICS[name](drawn, k)
        error = values.std() / np.sqrt(rounds)
        assert CHANCE[name](gallery, found, total, k) == pytest.approx(values.mean(), abs=4.5 * error + 1e-12)
