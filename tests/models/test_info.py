"""``eyechart info MODEL``: the card of a loaded model."""

import json

import pytest

from eyechart import evaluate
from eyechart.cli import main
from eyechart.models.resolve import resolve_model
from support.data import write_classification


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


@pytest.mark.parametrize("name", ["onnx", "clip", "sentence-transformers-clip", "open_clip-siglip"])
def test_info_eval_and_evaluate_agree_on_a_folder(zoo, name, tmp_path, monkeypatch, capsys):
    write_classification(tmp_path / "data", n=4)
    monkeypatch.chdir(tmp_path)
    folder, card = str(zoo.case(name).parts[0].parent), zoo.encoder(name).card

    facts = info(capsys, folder)
    (result,) = evaluate(model=[folder], dataset=["data"], output="one.json")
    assert main(["eval", "--model", folder, "--dataset", "data", "--output", "two.json", "--quiet"]) == 0

    body = json.loads((tmp_path / "two.json").read_text())
    told = {facts["family"], result.job["model_type"], body["job"]["model_type"], resolve_model(folder).family}
    assert told == {card.family}
    prints = {facts["fingerprint"], result.model_card["fingerprint"], body["model_card"]["fingerprint"]}
    assert prints == {card.fingerprint}


def test_a_name_that_nobody_knows(capsys):
    assert main(["info", "no-such-thing"]) == 2
    assert "Unknown name: 'no-such-thing'" in capsys.readouterr().err


def test_a_name_that_could_be_anything_is_not_looked_for_on_a_hub(capsys):
    assert main(["info", "no-such/thing"]) == 2
    assert "Unknown name: 'no-such/thing'" in capsys.readouterr().err
