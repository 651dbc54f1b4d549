"""The same weights are another model with another tokenizer, config, architecture or code."""

import dataclasses
import json
import shutil

import numpy as np
import pytest

from eyechart.models.local_generators import TransformersGeneratorFamily
from eyechart.models.rerankers import CrossEncoderFamily, Shortlist
from eyechart.types import ModelSpec
from support.text_models import save_tiny_cross_encoder
from support.tiny_vlm import save_tiny_vlm
from support.zoo import load


def copied(zoo, name, tmp_path):
    root = zoo.case(name).parts[0].parent
    shutil.copytree(root, tmp_path / "copy")
    spec = zoo.case(name).spec
    swap = {field: getattr(spec, field).replace(str(root), str(tmp_path / "copy")) for field in ("name", "pretrained")}
    return dataclasses.replace(spec, **swap), tmp_path / "copy"


def edit(path, change):
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def swap_rare_words(tokenizer):
    """Exchange two pieces of the vocabulary that none of the texts has by which a tokenizer is probed."""
    vocabulary = tokenizer["model"]["vocab"]
    one, two = ("zebra</w>", "camel</w>") if "zebra</w>" in vocabulary else ("zebra", "camel")
    vocabulary[one], vocabulary[two] = vocabulary[two], vocabulary[one]


@pytest.mark.parametrize(
    ("name", "file", "change"),
    [
        ("clip", "tokenizer.json", swap_rare_words),
        ("clip", "config.json", lambda config: config["text_config"].update(hidden_act="relu")),
        ("clip", "config.json", lambda config: config["vision_config"].update(num_attention_heads=4)),
        ("sentence-transformers-clip", "tokenizer.json", swap_rare_words),
        ("sentence-transformers-text", "config.json", lambda config: config.update(hidden_act="relu")),
        ("open_clip", "made.json", lambda config: config["vision_cfg"].update(head_width=16)),
        ("open_clip-siglip", "open_clip_config.json", lambda c: c["model_cfg"]["text_cfg"].update(heads=4)),
    ],
)
def test_the_same_weights_made_into_something_else(zoo, tmp_path, name, file, change):
    spec, folder = copied(zoo, name, tmp_path)
    before = load(spec).card
    edit(folder / file, change)
    after = load(spec).card

    assert after.weights_digest == before.weights_digest
    assert after.fingerprint != before.fingerprint


def test_words_that_no_probe_has_are_read_otherwise(zoo, tmp_path):
    spec, folder = copied(zoo, "clip", tmp_path)
    before = load(spec).encode_texts(["a zebra and a bus", "a cat"])
    edit(folder / "tokenizer.json", swap_rare_words)
    after = load(spec).encode_texts(["a zebra and a bus", "a cat"])

    assert np.abs(after - before)[0].max() > 1e-3
    np.testing.assert_array_equal(after[1], before[1])


def test_code_that_comes_with_a_model_is_part_of_it(zoo, tmp_path):
    spec, folder = copied(zoo, "remote-code", tmp_path)
    before = load(spec).card
    code = (folder / "modeling_own.py").read_text()
    (folder / "modeling_own.py").write_text(code.replace(".mean((2, 3))", ".amax((2, 3))"))
    after = load(spec).card

    assert after.weights_digest == before.weights_digest
    assert after.fingerprint != before.fingerprint


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("generation_config.json", lambda config: config.update(repetition_penalty=1.5)),
        ("config.json", lambda config: config["text_config"].update(rms_norm_eps=0.1)),
        ("tokenizer.json", lambda tokenizer: tokenizer.update(normalizer={"type": "Lowercase"})),
    ],
)
def test_a_generator_that_would_answer_otherwise_is_another_one(tmp_path, file, change):
    folder = save_tiny_vlm(tmp_path / "vlm")
    spec = ModelSpec("transformers", str(folder))
    before = TransformersGeneratorFamily().load(spec).card
    edit(folder / file, change)
    after = TransformersGeneratorFamily().load(spec).card

    assert after.weights_digest == before.weights_digest
    assert after.fingerprint != before.fingerprint


def test_a_reranker_with_another_tokenizer_is_another_one(tmp_path):
    spec = ModelSpec("cross-encoder", save_tiny_cross_encoder(tmp_path))
    before = CrossEncoderFamily().load(spec).card.fingerprint
    assert CrossEncoderFamily().load(spec).card.fingerprint == before
    edit(tmp_path / "tokenizer.json", swap_rare_words)

    assert CrossEncoderFamily().load(spec).card.fingerprint != before


def test_a_reranker_tells_large_scores_apart(tmp_path):
    """Sigmoid makes 1.0 of all of them."""
    import torch
    from transformers import BertForSequenceClassification

    folder = save_tiny_cross_encoder(tmp_path / "sure")
    model = BertForSequenceClassification.from_pretrained(folder)
    with torch.no_grad():
        model.classifier.bias.fill_(30)
        model.classifier.weight.mul_(50)
    model.save_pretrained(folder)

    shortlist = Shortlist("1", "a cat", ("a dog", "two cats", "a house at a river"))
    ((_, scores),) = CrossEncoderFamily().load(ModelSpec("cross-encoder", folder)).score([shortlist], lambda *_: None)
    assert len(set(scores)) == 3
