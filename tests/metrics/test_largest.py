"""The k-th largest number of each row is numpy's."""

import numpy as np
import pytest

from eyechart.metrics.vectors import kth_largest


@pytest.mark.parametrize("k", [1, 3, 20])
@pytest.mark.parametrize("levels", [2, 50, 10**6])
@pytest.mark.parametrize("columns", [20, 700, 5003])
def test_it_is_that_of_the_sorted_row(k, levels, columns):
    rng = np.random.default_rng(columns)
    scores = rng.integers(0, levels, (15, columns)).astype(np.float32)
    scores[0], scores[1] = np.sort(scores[0]), -np.sort(scores[1])
    scores[2], scores[3, 5:] = -np.inf, -np.inf
    before = scores.copy()

    assert kth_largest(scores, k).tolist() == np.sort(before, axis=1)[:, -k].tolist()
    np.testing.assert_array_equal(scores, before)
