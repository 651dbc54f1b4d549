"""Faster ways of torch: each gives the vectors of the plain way but for rounding, and is another model to the store."""

import dataclasses

import numpy as np
import pytest
import torch
from torch.backends import cuda, cudnn

from eyechart.config import make_config
from eyechart.errors import UsageError
from eyechart.inference.image_batches import stack
from eyechart.models.towers.precision import ComputeOptions
from eyechart.models.towers.torch_tools import forward_pass
from eyechart.plan_models import model_specs
from eyechart.types import ModelSpec
from support.zoo import TEXTS, load, photos

ROUNDING = 1e-5
# aot_eager traces and lowers the towers as the default backend does, without calling a C++ compiler.
WAYS = [{"channels_last": True}, {"tf32": True}, {"compile": "aot_eager"}]
TORCH = ["open_clip", "clip", "siglip2-naflex", "sentence-transformers-clip", "internvl_c_retrieval", "ja_clip"]


def ask(case, options, **changes):
    return dataclasses.replace(case.spec, options={**case.spec.options, **options}, **changes)


def compare(zoo, name, options, **changes):
    plain, other = zoo.encoder(name), load(ask(zoo.case(name), options, **changes))
    pixels = stack([plain.prepare_image(image) for image in photos()])
    np.testing.assert_allclose(other.encode_texts(TEXTS), plain.encode_texts(TEXTS), atol=ROUNDING)
    for rows in (len(pixels), 2):
        np.testing.assert_allclose(
            other.encode_images(pixels[:rows]), plain.encode_images(pixels[:rows]), atol=ROUNDING
        )
    return plain, other


@pytest.mark.parametrize("options", WAYS[:2], ids=str)
@pytest.mark.parametrize("name", TORCH)
def test_each_way_gives_the_same_vectors_but_for_rounding_and_is_another_model(zoo, name, options):
    plain, other = compare(zoo, name, options)

    assert other.card.fingerprint != plain.card.fingerprint


def test_compiled_towers_give_the_same_vectors_but_for_rounding_and_are_another_model(zoo):
    plain, other = compare(zoo, "open_clip", WAYS[2])

    assert other.card.fingerprint != plain.card.fingerprint


def test_all_ways_at_once(zoo):
    compare(zoo, "open_clip", {"channels_last": True, "tf32": True})


def test_no_two_choices_share_vectors(zoo):
    case = zoo.case("open_clip")
    choices = [{}, *WAYS[:2], {"channels_last": True, "tf32": True}]  # compiled ones: above

    cards = [load(ask(case, options)).card for options in choices]
    cards += [load(ask(case, options, precision="bf16")).card for options in choices]

    assert len({card.fingerprint for card in cards}) == len(cards)


def test_what_is_switched_off_is_the_model_that_it_always_was(zoo):
    off = load(ask(zoo.case("open_clip"), {"channels_last": False, "tf32": False, "compile": False}))

    assert off.card == zoo.encoder("open_clip").card


def test_the_towers_get_pixels_and_weights_in_the_layout_that_was_asked_for(zoo):
    other = load(ask(zoo.case("open_clip"), {"channels_last": True}))
    seen = []
    patches = other.model.visual.conv1
    patches.register_forward_pre_hook(lambda module, inputs: seen.append((module.weight, inputs[0])))

    other.encode_images(stack([other.prepare_image(image) for image in photos()]))

    assert seen
    for tensor in seen[0]:
        assert tensor.is_contiguous(memory_format=torch.channels_last)
        assert not tensor.is_contiguous()


SWITCHES = {
    "torch's default": lambda: None,
    "TF32 everywhere": lambda: torch.set_float32_matmul_precision("high"),
    "bf16 products on a CPU": lambda: torch.set_float32_matmul_precision("medium"),
    "the generic switch": lambda: setattr(torch.backends, "fp32_precision", "tf32"),
}


def switches():
    """Return the effective precision of convolutions and matrix products."""
    parts = cudnn.conv, cudnn.rnn, cuda.matmul, torch.backends.mkldnn.matmul
    return [part.fp32_precision for part in parts] + [cudnn.allow_tf32, cuda.matmul.allow_tf32]


@pytest.fixture(params=SWITCHES)
def before(request):
    """Let the process have other switches than Eyechart's; return them."""
    generic, products, convolutions = (
        torch.backends.fp32_precision,
        torch.get_float32_matmul_precision(),
        cudnn.allow_tf32,
    )
    SWITCHES[request.param]()
    yield switches()
    torch.backends.fp32_precision = generic
    torch.set_float32_matmul_precision(products)
    cudnn.allow_tf32 = convolutions


@pytest.mark.parametrize("options", [{}, {"tf32": False}, {"tf32": True}])
def test_tf32_is_on_during_a_pass_only_if_requested(zoo, monkeypatch, before, options):
    other = load(ask(zoo.case("open_clip"), options))
    pixels = stack([other.prepare_image(image) for image in photos()])
    seen, wanted = [], bool(options.get("tf32"))

    def features(model, pixels):
        seen.append(switches())
        raise RuntimeError("the pass fails")

    monkeypatch.setattr(other, "_image", features)
    for batch in (pixels, torch.from_numpy(pixels)):
        with pytest.raises(Exception, match="the pass fails"):
            other.encode_images(batch)

    *_, on_cpu, convolutions, products = seen[0]
    assert seen[0] == seen[1]
    assert seen[0][:3] == ["tf32" if wanted else "ieee"] * 3
    assert (convolutions, products) == (wanted, wanted)
    assert wanted or on_cpu == "ieee"
    assert switches() == before


def test_tf32_is_off_in_a_pass_of_any_model():
    for precision in ("fp32", "amp"):
        with forward_pass(precision):
            assert not cudnn.allow_tf32
            assert not cuda.matmul.allow_tf32


def test_onnxruntime_computes_without_tf32_on_a_gpu(monkeypatch):
    """A double of onnxruntime's session, as its CUDA provider needs a GPU."""
    import onnxruntime

    seen = []

    class Session(onnxruntime.InferenceSession):
        def __init__(self, path, providers):
            seen.append(dict(providers))
            super().__init__(path, providers=["CPUExecutionProvider"])

    monkeypatch.setattr(onnxruntime, "InferenceSession", Session)
    monkeypatch.setattr(
        onnxruntime, "get_available_providers", lambda: ["CUDAExecutionProvider", "CPUExecutionProvider"]
    )
    load(ModelSpec("onnx", "eyechart-tiny", device="cuda"))

    assert seen == [{"CUDAExecutionProvider": {"use_tf32": "0"}, "CPUExecutionProvider": {}}] * 2


def test_only_what_may_round_otherwise_is_inexact():
    assert not ComputeOptions().inexact
    assert all(ComputeOptions.of(options).inexact for options in (WAYS[0], WAYS[1], WAYS[2]))


@pytest.mark.parametrize(
    ("family", "options", "message"),
    [
        ("open_clip", {"tf32": "yes"}, "Invalid value of the option tf32: 'yes'"),
        ("transformers", {"channels_last": 1}, "Invalid value of the option channels_last: 1"),
        ("open_clip", {"chanels_last": True}, "Did you mean channels_last"),
        ("onnx", {"tf32": True}, "Unknown option of the model type onnx: 'tf32'"),
    ],
)
def test_a_way_that_there_is_not_is_refused(family, options, message):
    with pytest.raises(UsageError) as error:
        model_specs(make_config({"model_type": family, "model": ["ViT-B-32"], "model_options": options}))

    assert message in str(error.value)


def test_a_backend_that_torch_does_not_have_is_refused(zoo):
    with pytest.raises(UsageError) as error:
        load(ask(zoo.case("open_clip"), {"compile": "inductr"}))

    assert "Unknown backend of torch.compile: 'inductr'" in str(error.value)
    assert "Did you mean inductor" in str(error.value)


def test_the_card_of_one_choice_is_never_taken_for_that_of_another(zoo):
    case = zoo.case("open_clip")

    cards = {str(ask(case, options).what) for options in ({}, *WAYS)}

    assert len(cards) == 1 + len(WAYS)
