import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from eyechart.learn.nearest import neighbour_votes
from eyechart.metrics.vectors import unit


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 30))
def test_votes_decide_as_in_scikit_learn(seed, k):
    from sklearn.neighbors import KNeighborsClassifier

    rng = np.random.default_rng(seed)
    train, queries = (unit(rng.standard_normal((n, 5)).astype(np.float32)) for n in (40, 20))
    labels = rng.integers(0, 4, 40)
    labels[:4] = np.arange(4)

    theirs = KNeighborsClassifier(
        k, metric="cosine", algorithm="brute", weights=lambda distance: np.exp((1 - distance) / 0.07)
    ).fit(train, labels)
    votes = neighbour_votes(train, labels, queries, k)

    np.testing.assert_allclose(votes / votes.sum(axis=1, keepdims=True), theirs.predict_proba(queries), atol=1e-4)


def test_all_that_are_as_near_as_the_last_one_vote():
    train = np.array([[1, 0]] * 6, np.float32)
    labels = np.array([0, 0, 1, 1, 2, 2])

    votes = neighbour_votes(train, labels, train[:1], k=2)

    np.testing.assert_array_equal(votes, [[2, 2, 2]])


def test_the_order_of_the_training_data_does_not_matter():
    rng = np.random.default_rng(0)
    train = unit(rng.standard_normal((30, 4)).astype(np.float32)).repeat(2, axis=0)
    labels, order = rng.integers(0, 3, 60), rng.permutation(60)

    np.testing.assert_allclose(
        neighbour_votes(train, labels, train[:10], k=5),
        neighbour_votes(train[order], labels[order], train[:10], k=5),
        rtol=1e-5,
    )


def test_copies_of_a_training_image_vote_exactly_alike():
    rng = np.random.default_rng(1)
    once = unit(rng.standard_normal((37, 513)).astype(np.float32))
    train, labels = np.concatenate([once, once[::-1]]), np.repeat([0, 1], 37)

    votes = neighbour_votes(train, labels, unit(rng.standard_normal((50, 513)).astype(np.float32)), k=1)

    # The nearest image is there twice, once for each class: however the product rounds, both vote.
    np.testing.assert_array_equal(votes, np.ones((50, 2)))


def test_more_neighbours_than_training_data_are_all_of_them():
    train = np.eye(3, dtype=np.float32)

    votes = neighbour_votes(train, np.array([0, 1, 2]), train[:1], k=50, temperature=np.inf)

    np.testing.assert_array_equal(votes, [[1, 1, 1]])
