"""Computing only the position that is read must not change a vector, and must not happen where it would."""

import copy

import open_clip
import pytest
import torch
from open_clip.model import CLIP

from eyechart.models.speedups.open_clip_towers import encode_stripped, speed_up, strip_padding

VISION = {"image_size": 32, "layers": 2, "width": 32, "patch_size": 16, "head_width": 16}
TEXT = {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 2}
TEXTS = ["a", "", "a photo of a dog.", "!? !! wow", "word " * 200, "ein Hund, zwei Katzen und 东京"]


def model(vision=None, text=None):
    torch.manual_seed(0)
    return CLIP(16, {**VISION, **(vision or {})}, {**TEXT, **(text or {})}).eval()


def pixels(n=5):
    return torch.randn(n, 3, 32, 32, generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def tokenizer():
    return open_clip.get_tokenizer("ViT-B-32")


def forward_of(transformer):
    """Return what was put in the place of the last block's own forward pass, if anything was."""
    return transformer.resblocks[-1].__dict__.get("forward")


def rows_through_the_last_mlp(transformer, encode):
    """Count how many positions the last block's second half sees."""
    seen = []
    handle = transformer.resblocks[-1].mlp.register_forward_hook(
        lambda _, inputs, __: seen.append(inputs[0].shape[:-1].numel())
    )
    encode()
    handle.remove()
    return sum(seen)


@pytest.mark.parametrize("vision", [{}, {"ls_init_value": 0.1}, {"patch_size": 8}])
def test_images_have_the_same_vectors_from_less_work(vision, tokenizer):
    clip = model(vision)
    with torch.inference_mode():
        whole = clip.encode_image(pixels())

        assert speed_up(clip, tokenizer, onednn=False)[0] == ("last_block",)

        torch.testing.assert_close(clip.encode_image(pixels()), whole, atol=1e-6, rtol=0)
        assert rows_through_the_last_mlp(clip.visual.transformer, lambda: clip.encode_image(pixels())) == 5


def test_texts_have_the_same_vectors_from_less_work(tokenizer):
    clip = model()
    tokens = tokenizer(TEXTS)
    with torch.inference_mode():
        whole = clip.encode_text(tokens)

        assert "last_block" in speed_up(clip, tokenizer, onednn=False)[1]

        torch.testing.assert_close(encode_stripped(clip, strip_padding(tokens)), whole, atol=1e-6, rtol=0)
        assert rows_through_the_last_mlp(clip.transformer, lambda: encode_stripped(clip, strip_padding(tokens))) == len(
            TEXTS
        )


def test_a_copy_is_shortened_on_its_own_weights(tokenizer):
    clip = model()
    speed_up(clip, tokenizer, onednn=False)

    other = copy.deepcopy(clip)

    assert forward_of(other.visual.transformer).block is other.visual.transformer.resblocks[-1]


@pytest.mark.parametrize("vision", [{"pool_type": "avg"}, {"attentional_pool": True, "attn_pooler_heads": 2}])
def test_a_tower_that_reads_all_positions_is_left_alone(vision, tokenizer):
    clip = model(vision)
    with torch.inference_mode():
        whole = clip.encode_image(pixels())

        assert speed_up(clip, tokenizer, onednn=False)[0] == ()

        assert torch.equal(clip.encode_image(pixels()), whole)


def test_a_text_tower_that_reads_another_position_is_left_alone(tokenizer):
    clip = model(text={"pool_type": "last"})

    assert "last_block" not in speed_up(clip, tokenizer, onednn=False)[1]
    assert forward_of(clip.transformer) is None


def test_a_residual_network_is_left_alone(tokenizer):
    clip = model({"layers": (1, 1, 1, 1), "width": 16, "image_size": 64})

    assert speed_up(clip, tokenizer, onednn=False)[0] == ()
