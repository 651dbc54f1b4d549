"""``eyechart info MODEL``: the card of a loaded model."""

import json

import pytest

from eyechart.cli import main
from eyechart.models.resolve import recognise


def info(capsys, *words):
    assert main(["info", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_embedded_model_is_known_by_name(capsys):
    facts = info(capsys, "eyechart-tiny")

    assert (facts["family"], facts["embedding size"], facts["context length"]) == ("onnx", 128, 32)
    assert len(facts["fingerprint"]) == 32


def test_a_checkpoint_of_an_architecture(zoo, capsys):
    spec, card = zoo.case("open_clip").spec, zoo.encoder("open_clip").card

    facts = info(capsys, spec.name, "--model_type", "open_clip", "--pretrained", spec.pretrained)

    assert facts["fingerprint"] == card.fingerprint
    assert facts["parameters"] == f"{card.parameters:,}"


def test_a_folder_is_recognised_and_options_count(zoo, capsys):
    facts = info(capsys, zoo.case("clip").spec.name, "--model_option", "context_length=12")

    assert (facts["family"], facts["context length"]) == ("transformers", 12)


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("clip", "transformers"),
        ("onnx", "onnx"),
        ("sentence-transformers-clip", "sentence-transformers"),
        ("open_clip-siglip", "open_clip"),
        ("internvl_c_retrieval_hf", "internvl"),
    ],
)
def test_families_are_recognised_by_name_or_folder(zoo, name, family):
    assert recognise(zoo.case(name).spec.name) == family


def test_architectures_of_open_clip_are_known_and_other_names_are_not():
    assert recognise("ViT-B-32") == "open_clip"
    assert recognise("python:a:b") == "python"
    assert recognise("no-such-model") is None


def test_a_name_that_nobody_knows(capsys):
    assert main(["info", "no-such-thing"]) == 2
    assert "Unknown name: 'no-such-thing'" in capsys.readouterr().err
