"""Weights that are laid out for a CPU must not change a vector, and must not take twice the memory."""

import copy

import open_clip
import pytest
import torch
from open_clip.model import CLIP

from eyechart.models.speedups import open_clip_towers
from eyechart.models.speedups.open_clip_towers import (
    LastTokenBlock,
    OnednnLinear,
    encode_stripped,
    speed_up,
    strip_padding,
)

VISION = {"image_size": 32, "layers": 3, "width": 32, "patch_size": 16, "head_width": 16}
TEXT = {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 3}
TEXTS = ["a", "", "a photo of a dog.", "word " * 200, "ein Hund, zwei Katzen und 东京"]
PIXELS = torch.randn(5, 3, 32, 32, generator=torch.Generator().manual_seed(1))


def model(**vision):
    torch.manual_seed(0)
    return CLIP(16, {**VISION, **vision}, TEXT).eval()


def arranged(clip):
    return "onednn_weights" in speed_up(clip, open_clip.get_tokenizer("ViT-B-32"), onednn=True)[0]


def refused(*_):
    raise ValueError("not this one")


def bytes_of(transformer):
    return sum(weight.nbytes for weight in transformer.parameters())


@pytest.mark.parametrize("vision", [{}, {"ls_init_value": 0.1}, {"patch_size": 8}])
@pytest.mark.parametrize("short", [True, False])
def test_images_have_the_same_vectors(vision, short, monkeypatch):
    clip = model(**vision)
    if not short:
        monkeypatch.setattr(LastTokenBlock, "__init__", refused)
    with torch.inference_mode():
        whole = clip.encode_image(PIXELS)

        found = speed_up(clip, open_clip.get_tokenizer("ViT-B-32"), onednn=True)[0]

        assert found == (("last_block", "onednn_weights") if short else ("onednn_weights",))

        torch.testing.assert_close(clip.encode_image(PIXELS), whole, atol=1e-6, rtol=0)


def test_texts_have_the_same_vectors():
    clip, tokenizer = model(), open_clip.get_tokenizer("ViT-B-32")
    tokens = tokenizer(TEXTS)
    with torch.inference_mode():
        whole = clip.encode_text(tokens)

        assert speed_up(clip, tokenizer, onednn=True)[1] == ("strip_padding", "last_block", "onednn_weights")

        torch.testing.assert_close(encode_stripped(clip, strip_padding(tokens)), whole, atol=1e-6, rtol=0)


def test_the_original_weights_are_given_back(monkeypatch):
    monkeypatch.setattr(LastTokenBlock, "__init__", refused)  # the attention of a shortened block keeps its own
    clip = model()
    before = bytes_of(clip.visual.transformer)

    assert arranged(clip)

    assert bytes_of(clip.visual.transformer) < before / 10  # biases and norms


def test_a_twin_shares_the_weights():
    clip = model()
    assert arranged(clip)

    twin = copy.deepcopy(clip)

    ours, theirs = (one.visual.transformer.resblocks[0].mlp.c_fc.forward for one in (clip, twin))
    assert ours is theirs
    with torch.inference_mode():
        assert torch.equal(twin.encode_image(PIXELS), clip.encode_image(PIXELS))


def test_a_tower_that_would_differ_is_left_as_it_is(monkeypatch):
    monkeypatch.setattr(LastTokenBlock, "__init__", refused)  # it is a change of its own, which rounds differently
    clip = model()
    with torch.inference_mode():
        whole = clip.encode_image(PIXELS)
        monkeypatch.setattr(
            OnednnLinear, "__call__", lambda self, x: self.multiply(x, self.weight, None, "none", [], "")
        )
        for block in clip.visual.transformer.resblocks:
            torch.nn.init.constant_(block.mlp.c_fc.bias, 0.5)
        with_bias = clip.encode_image(PIXELS)

        assert not arranged(clip)

        assert not torch.equal(whole, with_bias)
        assert torch.equal(clip.encode_image(PIXELS), with_bias)


def test_a_very_large_tower_is_left_as_it_is(monkeypatch):
    monkeypatch.setattr(open_clip_towers, "MAX_ONEDNN_BYTES", 1000)

    assert not arranged(model())


def test_a_tower_of_another_kind_is_left_as_it_is():
    clip = CLIP(16, {"image_size": 32, "layers": (1, 1, 1, 1), "width": 8}, TEXT).eval()

    assert not arranged(clip)
