"""One switch disables all exact speed-ups: the code paths are off, and the vectors agree."""

import numpy as np
import pytest

from eyechart.models import speedups
from eyechart.models.speedups.autotune import PLAIN
from eyechart.models.speedups.open_clip_towers import LastTokenBlock, OnednnLinear
from support.data import noise_image
from support.zoo import load

TEXTS = ["a", "a photo of a dog.", "two red cups left of a very small table"]


@pytest.fixture
def load_plain(zoo, monkeypatch):
    """Load a model of the zoo as it is without speed-ups; the one with them is loaded before."""

    def plain(name):
        zoo.encoder(name)
        monkeypatch.setenv("EYECHART_SPEEDUPS", "0")
        return load(zoo.case(name).spec)

    return plain


def prepared(encoder):
    return np.stack([encoder.prepare_image(noise_image(i, (90, 60 + i))) for i in range(40)])


def replaced(model):
    """Return the kinds of forward passes that were put in the place of the library's."""
    return {type(module.__dict__["forward"]) for module in model.modules() if "forward" in module.__dict__}


@pytest.mark.parametrize(("value", "on"), [("", True), ("1", True), ("0", False), ("off", False), (" False ", False)])
def test_the_switch(monkeypatch, value, on):
    monkeypatch.setenv("EYECHART_SPEEDUPS", value)

    assert speedups.enabled() is on


def test_the_speedups_are_on_by_default(zoo):
    encoder = zoo.encoder("open_clip")

    assert encoder.text_speedups == ("strip_padding", "last_block", "onednn_weights")
    assert encoder.speedups == ("last_block", "onednn_weights")
    assert {LastTokenBlock, OnednnLinear} <= replaced(encoder.model)
    assert encoder.pixels.known


def test_everything_is_off_and_the_vectors_agree(zoo, load_plain):
    plain, fast = load_plain("open_clip"), zoo.encoder("open_clip")

    assert (plain.speedups, plain.text_speedups) == ((), ())
    assert replaced(plain.model) == set()
    assert not plain.pixels.known
    assert plain.levels is None
    assert plain.text_inputs(plain.tokenize(TEXTS, "en"))["tokens"].shape[1] == 77
    assert plain.card.fingerprint == fast.card.fingerprint
    pixels = prepared(plain)
    assert np.array_equal(pixels, prepared(fast))  # every bit
    np.testing.assert_allclose(unit(plain.encode_images(pixels)), unit(fast.encode_images(pixels)), atol=1e-5)
    np.testing.assert_allclose(unit(plain.encode_texts(TEXTS)), unit(fast.encode_texts(TEXTS)), atol=1e-5)


def test_the_autotuner_tries_nothing(load_plain):
    plain = load_plain("open_clip")
    pixels = prepared(plain)
    plain.encode_images(pixels)
    plain._autotuner.threads, plain._autotuner.batches = 2, 1000
    plans = []
    run = plain._autotuner._run
    plain._autotuner._run = lambda plan, inputs: plans.append(plan) or run(plan, inputs)

    for _ in range(3):
        plain.encode_images(pixels)

    assert plans == [PLAIN] * 3


def test_internvl_is_switched_off_too(zoo, load_plain):
    plain, fast = load_plain("internvl_c_retrieval"), zoo.encoder("internvl_c_retrieval")

    ids = plain.tokenize(["a dog"], "en")
    assert plain.text_inputs(ids)["ids"].shape[1] > fast.text_inputs(ids)["ids"].shape[1]
    np.testing.assert_allclose(unit(plain.encode_texts(["a dog"])), unit(fast.encode_texts(["a dog"])), atol=1e-5)


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
