"""What single architectures do with texts and images."""

import dataclasses

import numpy as np
import pytest
import torch

from eyechart.metrics.vectors import unit
from eyechart.models.encoders.transformers import KINDS, TextSettings, context_length
from support import zoo_transformers
from support.zoo import TEXTS, load, photos
from support.zoo_tokenizers import gemma_like


def prepared(encoder):
    return np.stack([encoder.prepare_image(image) for image in photos()])


def test_blip_scores_every_pair_as_its_own_retrieval_head(zoo):
    from transformers import BlipForImageTextRetrieval, BlipProcessor

    encoder, folder = zoo.encoder("blip"), zoo.case("blip").spec.name
    model, processor = BlipForImageTextRetrieval.from_pretrained(folder).eval(), BlipProcessor.from_pretrained(folder)
    inputs = processor(
        images=[image.convert("RGB") for image in photos()],
        text=TEXTS[:5],
        padding=True,
        truncation=True,
        max_length=35,
        return_tensors="pt",
    )
    with torch.no_grad():
        expected = model(**inputs, use_itm_head=False).itm_score.numpy()

    scores = unit(encoder.encode_images(prepared(encoder))) @ unit(encoder.encode_texts(TEXTS[:5])).T

    np.testing.assert_allclose(scores, expected, atol=1e-5)


def test_blip2_says_that_it_averages_its_queries(zoo):
    assert "their mean represents the image" in zoo.encoder("blip2").card.notes[0]


def test_siglip_does_not_hear_shouting_or_punctuation(zoo):
    calm, loud = zoo.encoder("siglip").encode_texts(["a photo of a cat", "A Photo, of a CAT!"])

    np.testing.assert_array_equal(calm, loud)


def test_siglip2_reads_lower_case_also_with_a_tokenizer_that_keeps_the_case(zoo, tmp_path):
    zoo_transformers.siglip2(tmp_path / "model")
    gemma_like("GemmaTokenizer", tmp_path / "model", padding_side="right")
    encoder = load(dataclasses.replace(zoo.case("siglip2").spec, name=str(tmp_path / "model")))

    assert encoder.tokenizer("A")["input_ids"] != encoder.tokenizer("a")["input_ids"]
    np.testing.assert_array_equal(*encoder.encode_texts(["a photo of a cat", "A PHOTO of a CAT"]))
    assert "'lower': True" in encoder.card.transform


def test_naflex_keeps_the_shape_of_an_image(zoo):
    encoder = zoo.encoder("siglip2-naflex")
    square, wide = (encoder.prepare_image(image)[-1, :2] for image in (photos()[0], photos()[1]))

    assert square[0] == square[1]
    assert wide[0] < wide[1]
    assert encoder.prepare_image(photos()[0]).shape == encoder.prepare_image(photos()[1]).shape


def test_align_has_a_temperature_where_others_have_a_scale(zoo):
    from transformers import AlignModel

    temperature = AlignModel.from_pretrained(zoo.case("align").spec.name).temperature.item()

    assert zoo.encoder("align").card.logit_scale == pytest.approx(1 / temperature)


def test_clipseg_has_the_weights_of_the_clip_inside(zoo):
    assert zoo.encoder("clipseg").card.parameters == zoo.encoder("clip").card.parameters


class Config:
    """A text config with some positions."""

    def __init__(self, positions):
        self.text_config = type("Text", (), {"max_position_embeddings": positions})()


class Tokenizer:
    def __init__(self, limit):
        self.model_max_length = limit


@pytest.mark.parametrize(
    ("kind", "positions", "limit", "wanted", "expected"),
    [
        (TextSettings(), 77, 77, None, 77),
        (TextSettings(), 77, int(1e30), None, 77),
        (KINDS["chinese_clip"], 512, 512, None, 52),
        (KINDS["altclip"], 514, int(1e30), None, 77),
        (KINDS["altclip"], 70, 512, None, 68),
        (KINDS["siglip"], 64, 64, None, 64),
        (TextSettings(), 248, 77, 248, 248),
        (TextSettings(), 77, 77, 500, 77),
        (TextSettings(), None, int(1e30), None, 512),
    ],
)
def test_texts_are_cut_where_the_authors_cut_and_never_beyond_the_positions(kind, positions, limit, wanted, expected):
    assert context_length(Config(positions), Tokenizer(limit), kind, wanted) == expected


def test_a_text_tower_that_counts_from_its_padding_is_read_no_further_than_its_positions(zoo):
    from transformers import RobertaConfig, VisionTextDualEncoderConfig, ViTConfig

    text = RobertaConfig(max_position_embeddings=66)
    config = VisionTextDualEncoderConfig.from_vision_text_configs(ViTConfig(), text)
    assert context_length(config, zoo.encoder("clip").tokenizer, TextSettings()) == 64
