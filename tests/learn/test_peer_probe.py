"""The seed-compatible probe against CLIP_benchmark's, formula by formula.

The original insists on a GPU, so its constants and formulas are written down here as facts (version 1.6.2,
metrics/linear_probe.py) and our parts are held against each of them.
"""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eyechart.errors import DataError
from eyechart.learn.linear_classifiers import (
    COARSE,
    POINTS,
    SPANS,
    Schedule,
    accuracy,
    cosine_rate,
    find_peak,
    fit_adamw,
)
from eyechart.tasks.probe_data import Features, peer_draw
from eyechart.tasks.probes import WEIGHT_DECAYS, LinearProbe


def features(seed: int = 0, n: int = 130, dim: int = 12, classes: int = 5) -> Features:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, n)
    labels[:classes] = np.arange(classes)
    return Features(
        (rng.standard_normal((classes, dim))[labels] + rng.standard_normal((n, dim))).astype(np.float32), labels
    )


def test_weight_decays_are_97_from_a_millionth_to_a_hundred_and_the_first_look_is_at_seven():
    np.testing.assert_array_equal(WEIGHT_DECAYS, np.logspace(-6, 2, num=97))
    np.testing.assert_array_equal(WEIGHT_DECAYS[::COARSE], np.logspace(-6, 2, num=7))
    assert SPANS == (8, 4, 2, 1)


@given(st.integers(1, 5000), st.data())
def test_the_learning_rate_falls_along_half_a_cosine_without_warm_up(steps, data):
    step = data.draw(st.integers(0, steps - 1))

    assert cosine_rate(0.1, step, steps) == pytest.approx(0.05 * (1 + math.cos(math.pi * step / steps)), abs=1e-15)
    assert cosine_rate(0.1, 0, steps) == 0.1


@given(st.lists(st.integers(0, 30), min_size=POINTS, max_size=POINTS))
def test_the_search_walks_as_the_original_does(accuracies):
    def best(points):
        place, top = 0, 0
        for point in points:
            if top < accuracies[point]:
                place, top = point, accuracies[point]
        return place

    peak = best(range(0, 97, 16))
    span = 8
    while span > 0:
        peak = best([max(peak - span, 0), peak, min(peak + span, 96)])
        span //= 2

    assert find_peak(lambda point: accuracies[point]) == peak


@pytest.mark.parametrize(("decay", "batch", "seed"), [(0.0, 64, 0), (0.1, 50, 3)])
def test_training_is_adamw_on_cross_entropy_with_torchs_own_shuffling(decay, batch, seed):
    torch = pytest.importorskip("torch")
    from torch.utils.data import DataLoader, TensorDataset

    data, epochs = features(), 3
    torch.manual_seed(seed)
    layer = torch.nn.Linear(12, 5)
    optimiser = torch.optim.AdamW(layer.parameters(), lr=0.1, weight_decay=decay)
    rows = TensorDataset(torch.from_numpy(data.vectors), torch.from_numpy(data.labels))
    loader = DataLoader(rows, batch_size=batch, shuffle=True)
    for epoch in range(epochs):
        for i, (x, y) in enumerate(loader):
            step, steps = i + epoch * len(loader), epochs * len(loader)
            optimiser.param_groups[0]["lr"] = 0.5 * (1 + np.cos(np.pi * step / steps)) * 0.1
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(layer(x), y).backward()
            optimiser.step()

    ours = fit_adamw(data.vectors, data.labels, 5, decay, Schedule(epochs, 0.1, batch, seed))

    np.testing.assert_array_equal(ours.weights, layer.weight.detach().numpy())
    np.testing.assert_array_equal(ours.bias, layer.bias.detach().numpy())


class TestTheLastFit:
    train, val = features(1), features(2, n=60)

    @pytest.fixture(autouse=True)
    def _torch(self):
        pytest.importorskip("torch")

    def learn(self, val, **options):
        probe = LinearProbe()
        settings = probe.Settings.picked({"fewshot_epochs": 2, **options})
        learned = probe.learn(self.train, val, settings, "cpu")
        return learned.scores(self.train.vectors), learned.details["weight_decay"]

    def by_hand(self, data, decay):
        return fit_adamw(data.vectors, data.labels, 5, decay, Schedule(2, 0.1, 64, 0)).scores(self.train.vectors)

    def test_without_validation_data_weight_decay_is_zero(self):
        scores, decay = self.learn(None)

        assert decay == 0
        np.testing.assert_array_equal(scores, self.by_hand(self.train, 0.0))

    def test_with_validation_data_it_is_on_both_parts(self):
        scores, decay = self.learn(self.val)

        np.testing.assert_array_equal(scores, self.by_hand(self.train + self.val, decay))

    def test_with_few_shots_it_is_on_the_shots_only(self):
        scores, decay = self.learn(self.val, fewshot_k=5)

        np.testing.assert_array_equal(scores, self.by_hand(self.train, decay))

    def test_the_weight_decay_is_the_one_that_does_best_on_the_validation_data(self):
        _, decay = self.learn(self.val)

        def on_val(value):
            layer = fit_adamw(self.train.vectors, self.train.labels, 5, value, Schedule(2, 0.1, 64, 0))
            return accuracy(layer.scores(self.val.vectors), self.val.labels)

        assert on_val(decay) >= max(on_val(float(value)) for value in WEIGHT_DECAYS[::COARSE])


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.sampled_from([-1, 1, 2, 3]), st.integers(0, 5))
def test_few_images_are_drawn_in_the_order_of_the_original(labels, k, seed):
    """It walks once through torch's permutation and takes an image unless its class is full; all of them if k is -1."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(seed)
    expected, counts = [], Counter()
    for place in torch.randperm(len(labels)).tolist():
        if k < 0 or counts[labels[place]] < k:
            counts[labels[place]] += 1
            expected.append(place)
    if k > 0 and set(counts.values()) != {k}:
        with pytest.raises(DataError, match="fewer than"):  # it prints a line there and gives no metrics
            peer_draw(np.array(labels), k, seed)
    else:
        assert peer_draw(np.array(labels), k, seed).tolist() == expected
