"""Cutting padding off must not change a vector, and must not happen where it would."""

import open_clip
import pytest
import torch
from open_clip.model import CLIP

from eyechart.models.speedups.open_clip_towers import encode_stripped, speed_up, strip_padding

VISION = {"image_size": 32, "layers": 1, "width": 32, "patch_size": 16, "head_width": 16}
TEXT = {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 2}
TEXTS = ["a", "", "a photo of a dog.", "!? !! wow", "word " * 200, "ein Hund, zwei Katzen und 东京"]


def model(**changes):
    torch.manual_seed(0)
    return CLIP(16, VISION, {**TEXT, **changes}).eval()


@pytest.fixture(scope="module")
def tokenizer():
    return open_clip.get_tokenizer("ViT-B-32")


def test_a_causal_tower_gives_the_same_vectors_without_padding(tokenizer):
    clip = model()
    plain = model()
    assert "strip_padding" in speed_up(clip, tokenizer, onednn=False)[1]

    with torch.inference_mode():
        for texts in (TEXTS, *([text] for text in TEXTS)):
            tokens = tokenizer(texts)
            torch.testing.assert_close(
                encode_stripped(clip, strip_padding(tokens)), plain.encode_text(tokens), atol=1e-5, rtol=0
            )


def test_the_weights_are_as_before(tokenizer):
    clip = model()
    before = {name: tensor.clone() for name, tensor in clip.state_dict().items()}

    encode_stripped(clip, strip_padding(tokenizer(["a dog"])))

    assert all(torch.equal(tensor, before[name]) for name, tensor in clip.state_dict().items())
    assert clip.positional_embedding.shape == (77, 32)


@pytest.mark.parametrize("changes", [{"no_causal_mask": True}, {"pool_type": "last"}])
def test_a_tower_that_reads_its_padding_is_left_alone(tokenizer, changes):
    assert not speed_up(model(**changes), tokenizer, onednn=True)[1]
