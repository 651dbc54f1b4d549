"""Every step between bytes and model input gives its golden output, or has another version."""

import dataclasses
import json

import pytest

from eyechart import types
from eyechart.types import PIPELINE, ModelCard
from support.golden_pipeline import FAMILIES, GENERATORS, PIPELINES, STEPS, of_generator, of_model
from support.golden_runs import read_json

ADVICE = "its output changed: increase PIPELINE[{!r}] in types.py and run python tests/golden/regenerate.py pipeline"


def golden(step):
    """Return the stored outputs of a step; they must be those of its current version."""
    stored = read_json(PIPELINES)[step]
    assert stored["version"] == PIPELINE[step], "run python tests/golden/regenerate.py pipeline"
    return stored["outputs"]


def same(found, stored):
    if not isinstance(stored, list):
        return found == stored
    return found == pytest.approx(stored, abs=0.02)  # computed by a library


@pytest.mark.parametrize("step", STEPS)
def test_outputs_without_a_model_are_unchanged(step):
    stored = golden(step)

    for case, value in json.loads(json.dumps(STEPS[step]())).items():
        assert value == stored[case], f"{step}, {case}: {ADVICE.format(step)}"


@pytest.mark.parametrize("name", FAMILIES)
def test_inputs_of_encoders_are_unchanged(zoo, name):
    for step, value in of_model(zoo, name).items():
        assert same(value, golden(step)[f"model {name}"]), f"{step}: {ADVICE.format(step)}"


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # of transformers' PaliGemma
@pytest.mark.parametrize("name", GENERATORS)
def test_tokens_of_local_generators_are_unchanged(tmp_path, name):
    stored = golden("prompt")[f"generator, {name}"]

    assert of_generator(tmp_path, plain=GENERATORS[name]) == stored, ADVICE.format("prompt")


@pytest.mark.parametrize("role", types.STEPS)
@pytest.mark.parametrize("step", PIPELINE)
def test_another_version_of_a_step_is_another_model_for_what_it_affects(monkeypatch, role, step):
    card = ModelCard("family", "name", "weights", "transform", role=role)
    before = card.fingerprint
    monkeypatch.setattr(types, "PIPELINE", {**PIPELINE, step: PIPELINE[step] + 1})

    assert (card.fingerprint != before) == (step in types.STEPS[role])
    assert (
        dataclasses.replace(card, role="encoder").fingerprint != dataclasses.replace(card, role="generator").fingerprint
    )
