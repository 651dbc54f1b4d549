import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eyechart.metrics.classification import (
    abstention_gain,
    adaptive_calibration_error,
    expected_calibration_error,
    likelihoods,
    reliability,
)
from eyechart.metrics.vectors import unit

samples = st.integers(1, 60).flatmap(
    lambda n: st.tuples(
        st.lists(st.floats(0.001, 1.0), min_size=n, max_size=n).map(np.array),
        st.lists(st.booleans(), min_size=n, max_size=n).map(np.array),
    )
)


def model(seed=0, n=40, classes=5):
    rng = np.random.default_rng(seed)
    images, texts = (unit(rng.standard_normal((rows, 8)).astype(np.float32)) for rows in (n, classes))
    return images, texts, rng.integers(0, classes, n)


class TestSoftmax:
    @given(st.integers(0, 1000), st.sampled_from([1.0, 5.0, 15.0]))
    def test_likelihood_and_brier_are_scikit_learns(self, seed, scale):
        from sklearn.metrics import brier_score_loss, log_loss

        images, texts, labels = model(seed)
        found = likelihoods(images, texts, labels, scale, None)

        logits = scale * (images @ texts.T).astype(np.float64)
        chances = np.exp(logits - logits.max(1, keepdims=True))
        chances /= chances.sum(1, keepdims=True)
        assert found.nll.mean() == pytest.approx(log_loss(labels, chances, labels=range(5)), rel=1e-6)
        assert found.brier.mean() == pytest.approx(
            brier_score_loss(labels, chances, labels=range(5), scale_by_half=False), rel=1e-6
        )
        np.testing.assert_allclose(found.confidence, chances.max(1), rtol=1e-9)

    def test_a_constant_model_says_one_over_the_classes(self):
        images, texts = np.ones((4, 2), np.float32), np.ones((5, 2), np.float32)

        found = likelihoods(images, texts, np.zeros(4, int), 100.0, None)

        np.testing.assert_allclose(found.confidence, 0.2)
        np.testing.assert_allclose(found.nll, np.log(5))


class TestSigmoid:
    def test_every_class_is_a_question_of_its_own(self):
        from sklearn.metrics import log_loss

        images, texts, labels = model()
        found = likelihoods(images, texts, labels, 10.0, -4.0)

        chances = 1 / (1 + np.exp(-(10.0 * (images @ texts.T).astype(np.float64) - 4.0)))
        truth = np.eye(5)[labels]
        theirs = [log_loss(t, c, labels=[0, 1]) * 5 for t, c in zip(truth, chances, strict=True)]
        np.testing.assert_allclose(found.nll, theirs, rtol=1e-6)
        np.testing.assert_allclose(found.brier, ((chances - truth) ** 2).sum(1), rtol=1e-6)

    def test_large_logits_do_not_overflow(self):
        images, texts, labels = model()

        found = likelihoods(images, texts, labels, 1e4, -10.0)

        assert np.isfinite(found.nll).all()


class TestErrors:
    @given(samples)
    def test_the_error_is_that_of_scikit_learns_curve(self, sample):
        """calibration_curve gives accuracy and confidence per bin; the error is their weighted distance."""
        from sklearn.calibration import calibration_curve

        confidence, correct = sample
        accuracy, mean = calibration_curve(correct, confidence, n_bins=15)
        edges = np.linspace(0, 1, 16)
        counts = np.bincount(np.searchsorted(edges[1:-1], confidence), minlength=15)

        assert expected_calibration_error(confidence, correct) == pytest.approx(
            np.sum(counts[counts > 0] * np.abs(accuracy - mean)) / len(correct), abs=1e-12
        )

    @given(samples)
    def test_the_diagram_gives_the_error_again(self, sample):
        confidence, correct = sample
        bins = reliability(confidence, correct)

        assert sum(b["count"] for b in bins) == len(correct)
        assert all(b["low"] - 1e-9 <= b["confidence"] <= b["high"] + 1e-9 for b in bins)
        assert expected_calibration_error(confidence, correct) == pytest.approx(
            sum(b["count"] * abs(b["confidence"] - b["accuracy"]) for b in bins) / len(correct)
        )

    @given(samples)
    def test_with_one_bin_both_are_the_gap_between_the_means(self, sample):
        confidence, correct = sample

        gap = abs(confidence.mean() - correct.mean())
        assert expected_calibration_error(confidence, correct, 1) == pytest.approx(gap, abs=1e-12)
        assert adaptive_calibration_error(confidence, correct, 1) == pytest.approx(gap, abs=1e-12)

    def test_equal_sizes_by_hand(self):
        confidence, correct = np.array([0.1, 0.2, 0.6, 0.9]), np.array([False, True, True, True])

        # Two bins of two: |0.15 - 0.5| and |0.75 - 1|.
        assert adaptive_calibration_error(confidence, correct, 2) == pytest.approx((0.35 + 0.25) / 2)


def test_withholding_queries_of_equal_confidence_gains_nothing():
    values = np.arange(10.0)
    assert abstention_gain(values, values) == pytest.approx(1)
    assert abstention_gain(np.ones(10), values) == pytest.approx(0)
    assert abstention_gain(np.ones(10), values[::-1]) == pytest.approx(0), "whatever their order"
