import numpy as np
import pytest

from eyechart.learn.nearest import k_means
from eyechart.metrics.agreement import adjusted_rand_index, contingency
from eyechart.metrics.vectors import unit


def test_well_separated_groups_are_found():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 6, 300)
    vectors = unit((np.eye(8)[labels] + 0.1 * rng.standard_normal((300, 8))).astype(np.float32))

    assert adjusted_rand_index(contingency(k_means(vectors, 6, seed=0).assignment, labels)) == 1.0


@pytest.mark.parametrize("seed", range(5))
def test_the_inertia_is_as_good_as_scikit_learns(seed):
    from sklearn.cluster import KMeans

    vectors = unit(np.random.default_rng(seed).standard_normal((200, 6)).astype(np.float32))

    theirs = KMeans(5, n_init=5, random_state=seed, tol=1e-9).fit(vectors).inertia_ / 200

    assert k_means(vectors, 5, seed).inertia <= 1.02 * theirs


def test_each_row_is_in_the_cluster_of_its_nearest_centre():
    vectors = np.random.default_rng(1).standard_normal((100, 4)).astype(np.float32)

    found = k_means(vectors, 7, seed=0)

    distances = np.linalg.norm(vectors[:, None] - found.centres, axis=2)
    np.testing.assert_array_equal(found.assignment, distances.argmin(axis=1))
    assert found.inertia == pytest.approx(np.mean(distances.min(axis=1) ** 2), rel=1e-5)


def test_the_same_seed_gives_the_same_clusters():
    vectors = np.random.default_rng(2).standard_normal((60, 4)).astype(np.float32)

    np.testing.assert_array_equal(k_means(vectors, 4, 3).assignment, k_means(vectors, 4, 3).assignment)


def test_equal_rows_are_one_cluster():
    assert set(k_means(np.ones((20, 3), np.float32), 4, seed=0).assignment) == {0}
