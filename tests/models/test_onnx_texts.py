"""Exported text towers: texts are cleaned, cut and padded as the export says, and what it does not say is refused."""

import json
import shutil
import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest

from eyechart.demo import model_folder
from eyechart.errors import ModelError
from eyechart.types import ModelSpec
from support.zoo import TEXTS, load

END = 2
"""The number of the end mark in the vocabulary; texts are filled up with it, too."""
SETTINGS = {
    "tokenizer_class": "SiglipTokenizer", "do_lower_case": True, "pad_token": "</s>", "eos_token": "</s>",
    "unk_token": "<unk>", "model_max_length": 64,
}  # fmt: skip


@pytest.fixture(scope="module")
def exported(zoo, tmp_path_factory):
    """Export the text tower of a SigLIP, which takes no attention mask, with texts of any length."""
    import torch
    from transformers import AutoModel

    folder, source = tmp_path_factory.mktemp("siglip"), zoo.case("siglip").spec.name
    model = AutoModel.from_pretrained(source).eval()

    class Text(torch.nn.Module):
        def forward(self, input_ids):
            return model.get_text_features(input_ids=input_ids).pooler_output

    length = torch.export.Dim("length", min=2, max=64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter, about its own names of axes
        program = torch.onnx.export(
            Text().eval(), kwargs={"input_ids": torch.ones(2, 9, dtype=torch.int64)}, input_names=["input_ids"],
            output_names=["text_embeds"], dynamic_shapes={"input_ids": {0: torch.export.Dim("batch"), 1: length}},
            dynamo=True, verbose=False,
        )  # fmt: skip
    program.save(folder / "text.onnx")
    for file in ("image.onnx", "preprocessor_config.json"):
        shutil.copy(model_folder() / file, folder)
    save_vocabulary(Path(source) / "spiece.model", folder / "tokenizer.json")
    (folder / "tokenizer_config.json").write_text(json.dumps(SETTINGS))
    (folder / "config.json").write_text(json.dumps({"model_type": "siglip", "text_config": {"pad_token_id": END}}))
    return folder


def save_vocabulary(file, target):
    """Write a SentencePiece vocabulary as exporters do: without what SigLIP's class does to texts in Python."""
    from sentencepiece import sentencepiece_model_pb2
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    proto = sentencepiece_model_pb2.ModelProto.FromString(file.read_bytes())
    tokenizer = Tokenizer(models.Unigram([(piece.piece, piece.score) for piece in proto.pieces], unk_id=0))
    tokenizer.normalizer = normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")]
    )
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", END)])
    tokenizer.save(str(target))


@pytest.fixture
def folder(exported, tmp_path):
    return shutil.copytree(exported, tmp_path / "model")


def fix_length(folder, length):
    """Let the tower take texts of one length only."""
    model = onnx.load(folder / "text.onnx")
    dimension = model.graph.input[0].type.tensor_type.shape.dim[1]
    dimension.dim_value = length
    onnx.save(model, folder / "text.onnx")


def edit(folder, name, **changes):
    content = {**json.loads((folder / name).read_text()), **changes}
    (folder / name).write_text(json.dumps({key: value for key, value in content.items() if value is not None}))


def vectors(folder, **options):
    return load(ModelSpec("onnx", str(folder), options=options)).encode_texts(TEXTS)


def test_siglip_reads_as_its_library_does(zoo, folder):
    np.testing.assert_allclose(vectors(folder), zoo.case("siglip").texts(TEXTS), atol=1e-5)


def test_a_fixed_length_says_as_much_as_the_config(zoo, folder):
    fix_length(folder, 64)
    (folder / "config.json").unlink()

    np.testing.assert_allclose(vectors(folder), zoo.case("siglip").texts(TEXTS), atol=1e-5)


def test_a_length_that_is_longer_than_the_towers_is_cut_to_it(zoo, folder):
    fix_length(folder, 64)
    edit(folder, "config.json", model_type="unknown")
    edit(folder, "tokenizer_config.json", model_max_length=500)

    encoder = load(ModelSpec("onnx", str(folder)))

    assert encoder.card.context_length == 64
    np.testing.assert_allclose(encoder.encode_texts(TEXTS), zoo.case("siglip").texts(TEXTS), atol=1e-5)


def test_padding_that_the_tokenizer_was_saved_with_is_used(zoo, folder):
    (folder / "config.json").unlink()
    edit(folder, "tokenizer_config.json", pad_token=None)
    padding = {
        "strategy": {"Fixed": 64}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": END, "pad_type_id": 0,
        "pad_token": "</s>",
    }  # fmt: skip
    edit(folder, "tokenizer.json", padding=padding)

    np.testing.assert_allclose(vectors(folder), zoo.case("siglip").texts(TEXTS), atol=1e-5)


def test_more_tokens_than_rows_are_padded_to_are_refused(folder):
    (folder / "config.json").unlink()
    padding = {
        "strategy": {"Fixed": 16}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": END, "pad_type_id": 0,
        "pad_token": "</s>",
    }  # fmt: skip
    edit(folder, "tokenizer.json", padding=padding)

    with pytest.raises(ModelError, match="pads texts to 16 tokens, but the context length is 64"):
        vectors(folder)
    assert vectors(folder, context_length=16).shape == (len(TEXTS), 32)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rescale_offset": True}, "requires rescale_offset, which is not supported"),
        ({"do_flip_channel_order": True}, "requires do_flip_channel_order"),
        ({"do_pad": True}, "requires do_pad"),
        ({"size": 32, "image_processor_type": "SiglipImageProcessorFast"}, "ambiguous for .*: shorter side or square"),
    ],
)
def test_a_step_of_the_transform_that_nobody_does_is_refused(folder, changes, message):
    edit(folder, "preprocessor_config.json", **changes)

    with pytest.raises(ModelError, match=message):
        vectors(folder)


def test_steps_that_are_switched_off_and_a_size_of_clips_are_taken(folder):
    edit(folder, "preprocessor_config.json", do_pad=False, size=32, image_processor_type="CLIPImageProcessor")

    assert len(vectors(folder)) == len(TEXTS)


def test_a_padding_that_nobody_knows_is_refused(folder):
    (folder / "config.json").unlink()

    with pytest.raises(ModelError, match="the padding length is unknown") as error:
        vectors(folder)

    assert "config.json" in error.value.advice


def test_a_padding_token_that_nobody_knows_is_refused(folder):
    edit(folder, "config.json", text_config={})
    edit(folder, "tokenizer_config.json", pad_token=None)

    with pytest.raises(ModelError, match="the padding token is unknown"):
        vectors(folder)


def test_a_length_that_nobody_knows_is_refused_and_can_be_given(zoo, tmp_path):
    folder = shutil.copytree(model_folder(), tmp_path / "model")
    edit(folder, "eyechart.json", context_length=None)

    with pytest.raises(ModelError, match=r"The context length of .* is unknown") as error:
        vectors(folder)
    assert "context_length=77" in error.value.advice
    assert vectors(folder, context_length=20).shape == (len(TEXTS), 128)


@pytest.mark.parametrize(
    ("file", "changes"),
    [
        ("tokenizer_config.json", {"do_lower_case": False, "tokenizer_class": "T5Tokenizer"}),
        ("tokenizer_config.json", {"tokenizer_class": "T5Tokenizer"}),
        ("tokenizer_config.json", {"pad_token": "<unk>"}),
        ("tokenizer_config.json", {"padding_side": "left"}),
    ],
)
def test_another_way_to_read_is_another_model(folder, file, changes):
    spec = ModelSpec("onnx", str(folder))
    edit(folder, "config.json", model_type="clip")  # so that only the tokenizer's files speak
    before = load(spec)
    edit(folder, file, **changes)
    after = load(spec)

    assert after.card.fingerprint != before.card.fingerprint
    assert np.abs(after.encode_texts(TEXTS) - before.encode_texts(TEXTS)).max() > 1e-4


def test_scale_and_bias_are_those_that_the_folder_says(folder):
    (folder / "eyechart.json").write_text(json.dumps({"name": "s", "logit_scale": 117.3, "logit_bias": -12.9}))

    card = load(ModelSpec("onnx", str(folder))).card

    assert (card.name, card.logit_scale, card.logit_bias) == ("s", 117.3, -12.9)
