import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from eyechart.metrics.agreement import (
    adjusted_rand_index,
    best_matching,
    cluster_accuracy,
    contingency,
    normalised_mutual_information,
)

partitions = st.integers(2, 40).flatmap(
    lambda n: st.tuples(
        arrays(np.int64, n, elements=st.integers(0, 6)), arrays(np.int64, n, elements=st.integers(0, 6))
    )
)


@given(partitions)
def test_mutual_information_is_scikit_learns(pair):
    from sklearn.metrics import normalized_mutual_info_score

    clusters, labels = pair

    ours = normalised_mutual_information(contingency(clusters, labels))

    assert ours == pytest.approx(normalized_mutual_info_score(labels, clusters), abs=1e-9)


@given(partitions)
def test_the_rand_index_is_scikit_learns(pair):
    from sklearn.metrics import adjusted_rand_score

    clusters, labels = pair

    assert adjusted_rand_index(contingency(clusters, labels)) == pytest.approx(
        adjusted_rand_score(labels, clusters), abs=1e-9
    )


@given(
    st.tuples(st.integers(1, 9), st.integers(1, 9)).flatmap(lambda s: arrays(np.int64, s, elements=st.integers(0, 20)))
)
def test_the_matching_is_as_good_as_scipys(gain):
    from scipy.optimize import linear_sum_assignment

    rows, columns = best_matching(gain)

    assert len(set(rows)) == len(rows) == len(set(columns)) == min(gain.shape)
    assert gain[rows, columns].sum() == gain[linear_sum_assignment(gain, maximize=True)].sum()


def test_a_hundred_classes_are_matched():
    from scipy.optimize import linear_sum_assignment

    gain = np.random.default_rng(0).integers(0, 1000, (100, 120))

    assert gain[best_matching(gain)].sum() == gain[linear_sum_assignment(gain, maximize=True)].sum()


def test_accuracy_does_not_depend_on_the_numbers_of_the_clusters():
    labels = np.array([0, 0, 1, 1, 2, 2])

    assert cluster_accuracy(contingency(np.array([7, 7, 3, 3, 5, 5]), labels)) == 1.0
    assert cluster_accuracy(contingency(np.array([7, 7, 3, 3, 3, 3]), labels)) == pytest.approx(4 / 6)
