"""The way a CPU works through a batch may change the time, never a number."""

import json

import numpy as np
import pytest
import torch

from eyechart.models.speedups.autotune import PLAIN, CpuAutotuner, twin


@pytest.fixture
def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(144, 8))


@pytest.fixture
def pixels():
    return {"pixels": torch.randn(64, 3, 8, 8, generator=torch.Generator().manual_seed(1))}


@pytest.fixture(autouse=True)
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def forward(model, inputs):
    with torch.inference_mode():
        return model(inputs["pixels"]).numpy()


def tuner(network, run=forward):
    return CpuAutotuner(network, run, "a model")


@pytest.mark.parametrize("rows", [64, 60, 33])
@pytest.mark.parametrize("plan", [1, 2, 3, 8])
def test_rows_come_back_in_order(network, pixels, plan, rows):
    some = {"pixels": pixels["pixels"][:rows]}

    np.testing.assert_allclose(tuner(network)._run(plan, some), forward(network, some), atol=1e-6)


def test_streams_have_their_share_of_the_threads_and_leave_the_others_alone(network, pixels):
    seen = []

    def run(model, inputs):
        seen.append(torch.get_num_threads())
        return forward(model, inputs)

    tuner(network, run)._run(2, pixels)

    assert set(seen) == {1}
    assert torch.get_num_threads() == 2


def settled(tuner, pixels, monkeypatch, seconds):
    """Run batches until a way is chosen; each way takes the seconds it is said to."""
    monkeypatch.setattr(tuner, "_timed", lambda plan, inputs: (tuner._run(plan, inputs), seconds(plan)))
    for _ in range(40):
        tuner.run(pixels)
    return tuner.plan


def test_the_fastest_way_is_found_once_and_remembered(network, pixels, monkeypatch):
    found = settled(tuner(network), pixels, monkeypatch, lambda plan: 0.5 if plan == 2 else 1.0)

    assert found == 2
    assert tuner(network).plan == 2


def test_a_way_that_changes_a_bit_is_not_taken_however_fast(network, pixels, monkeypatch):
    def run(model, inputs):
        vectors = forward(model, inputs)
        return vectors if len(vectors) > 16 else np.nextafter(vectors, np.float32(1e9))

    found = settled(tuner(network, run), pixels, monkeypatch, lambda plan: 1.0 if plan == PLAIN else 0.1)

    assert found == PLAIN


def test_a_small_gain_is_noise(network, pixels, monkeypatch):
    assert settled(tuner(network), pixels, monkeypatch, lambda plan: 1.0 if plan == PLAIN else 0.98) == PLAIN


def test_a_small_run_is_over_before_anything_is_tried(network, pixels):
    passes = []

    def run(model, inputs):
        passes.append(len(inputs["pixels"]))
        return forward(model, inputs)

    first = tuner(network, run)
    for _ in range(16):
        first.run(pixels)

    assert passes == [64] * 16


def test_a_small_batch_is_neither_cut_nor_measured(network, pixels):
    first = tuner(network)

    for _ in range(5):
        first.run({"pixels": pixels["pixels"][:20]})

    assert first.plan is None


def test_every_batch_has_the_vectors_of_a_plain_pass(network, pixels):
    first, whole = tuner(network), forward(network, pixels)

    for _ in range(40):
        np.testing.assert_array_equal(first.run(pixels), whole)


@pytest.mark.parametrize("content", ['{"parallel": -1}', '{"parallel": "a"}', '{"parallel": 100}', "[]", "\\xff"])
def test_a_choice_that_is_none_is_made_again(network, content):
    first = tuner(network)
    first.path.parent.mkdir(parents=True, exist_ok=True)
    first.path.write_text(content)

    assert tuner(network).plan is None


def test_a_choice_of_another_version_is_made_again(network):
    path = tuner(network).path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"lanes": 3}))

    assert tuner(network).plan is None


def test_a_twin_has_the_same_weights_and_costs_no_memory(network):
    other = twin(network)

    assert other[0] is not network[0]
    assert all(a is b for a, b in zip(other.parameters(), network.parameters(), strict=True))


def test_more_cores_have_more_ways(network):
    assert tuner(network).plans == [PLAIN, 1, 2]
    torch.set_num_threads(8)
    assert tuner(network).plans == [PLAIN, 1, 4, 8]


@pytest.mark.parametrize("broken", [np.nan, None])
def test_a_model_that_does_not_repeat_its_bits_is_run_plainly(network, pixels, monkeypatch, broken):
    """Vectors with NaN equal nothing, not even themselves; those of some models differ from call to call."""
    values = iter(range(10**6))

    def run(model, inputs):
        return forward(model, inputs) + np.float32(next(values) if broken is None else broken)

    assert settled(tuner(network, run), pixels, monkeypatch, lambda plan: 1.0) == PLAIN
