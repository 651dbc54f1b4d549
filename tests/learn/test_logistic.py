import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eyechart.learn.linear_classifiers import accuracy, fit_logistic, log_likelihood, minimise


def blobs(seed: int, n: int = 120, dim: int = 6, classes: int = 4, spread: float = 1.5):
    """Draw classes that overlap, far from the origin, so that centring matters."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, n)
    labels[:classes] = np.arange(classes)
    centres = rng.standard_normal((classes, dim))
    vectors = centres[labels] + spread * rng.standard_normal((n, dim)) + 5
    return vectors.astype(np.float32), labels


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([1e-3, 0.1, 1.0, 30.0]))
def test_the_optimum_is_that_of_scikit_learn(seed, strength):
    from sklearn.linear_model import LogisticRegression

    vectors, labels = blobs(seed)

    ours = fit_logistic(vectors, labels, strength)
    theirs = LogisticRegression(C=strength, tol=1e-10, max_iter=20_000).fit(vectors.astype(np.float64), labels)

    assert ours.converged
    np.testing.assert_allclose(ours.model.weights, theirs.coef_, atol=2e-4)
    np.testing.assert_allclose(
        ours.model.bias - ours.model.bias.mean(), theirs.intercept_ - theirs.intercept_.mean(), atol=2e-3
    )


def test_the_start_does_not_change_the_answer():
    vectors, labels = blobs(1)
    elsewhere = fit_logistic(vectors, labels, 1e-3).model

    cold, warm = fit_logistic(vectors, labels, 1.0), fit_logistic(vectors, labels, 1.0, start=elsewhere)

    np.testing.assert_allclose(warm.model.weights, cold.model.weights, atol=1e-5)


def test_a_class_without_samples_is_never_predicted():
    vectors, labels = blobs(2)
    kept = labels != 1

    scores = fit_logistic(vectors[kept], labels[kept], 1.0).model.scores(vectors)

    assert (scores[:, 1] == -np.inf).all()
    assert accuracy(scores, labels) > 0.3


def test_a_fit_that_was_cut_short_says_so():
    vectors, labels = blobs(3)

    assert not fit_logistic(vectors, labels, 1.0, max_iterations=2).converged


def test_constant_features_give_the_frequencies_of_the_classes():
    labels = np.array([0, 0, 0, 1, 2, 2])

    scores = fit_logistic(np.ones((6, 3), np.float32), labels, 1.0).model.scores(np.ones((1, 3), np.float32))

    odds = np.exp(scores[0] - scores[0].max())
    np.testing.assert_allclose(odds / odds.sum(), [3 / 6, 1 / 6, 2 / 6], atol=1e-4)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000))
def test_a_quadratic_is_minimised_exactly(seed):
    rng = np.random.default_rng(seed)
    factor = rng.standard_normal((8, 8))
    matrix, goal = factor @ factor.T + np.eye(8), rng.standard_normal(8)

    found, _, converged = minimise(
        lambda x: (0.5 * (x - goal) @ matrix @ (x - goal), matrix @ (x - goal)), np.zeros(8), 1e-9, 500
    )

    assert converged
    np.testing.assert_allclose(found, goal, atol=1e-7)


def test_likelihood_is_scikit_learns_log_loss():
    from sklearn.metrics import log_loss

    rng = np.random.default_rng(0)
    scores, labels = rng.standard_normal((50, 4)).astype(np.float32), rng.integers(0, 4, 50)
    probabilities = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)

    assert log_likelihood(scores, labels) == pytest.approx(-log_loss(labels, probabilities, labels=range(4)), abs=1e-6)


def test_a_label_that_was_never_learnt_is_wrong_and_has_no_likelihood():
    scores = np.array([[2.0, 1.0], [1.0, 2.0]], np.float32)

    assert accuracy(scores, np.array([0, 5])) == 0.5
    assert log_likelihood(scores, np.array([0, 5])) == pytest.approx(log_likelihood(scores[:1], np.array([0])))


def test_a_tie_is_wrong():
    assert accuracy(np.array([[1.0, 1.0]], np.float32), np.array([0])) == 0


@pytest.mark.parametrize("strength", [1e-6, 1.0])
def test_many_classes_take_few_iterations(strength):
    """The bias is curved as the weights are: it took a hundred iterations where it was not."""
    vectors, labels = blobs(4, n=600, dim=32, classes=150)

    fit = fit_logistic(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), labels, strength)

    assert fit.converged
    assert fit.iterations < 40
