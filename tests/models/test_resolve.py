"""One resolver for encoders, generators and rerankers: a name, a folder, a hub id, code of one's own."""

import json
import shutil

import pytest

from eyechart.config import make_config
from eyechart.errors import ModelError, UnknownNameError, UsageError
from eyechart.models import registry
from eyechart.models.family import sees
from eyechart.models.resolve import ResolvedModel, check_sees, resolve_model
from eyechart.plan_models import model_specs
from support.text_models import minilm, save_tiny_cross_encoder
from support.tiny_vlm import save_tiny_vlm

FOLDERS = {
    "onnx": "onnx",
    "clip": "transformers",
    "siglip2-naflex": "transformers",
    "blip2": "transformers",
    "remote-code": "transformers",
    "sentence-transformers-clip": "sentence-transformers",
    "sentence-transformers-text": "sentence-transformers",
    "open_clip-siglip": "open_clip",
}


def folder_of(zoo, name):
    return zoo.case(name).spec.name.removeprefix("local-dir:")


@pytest.mark.parametrize(("name", "family"), FOLDERS.items())
def test_a_folder_is_recognised_by_its_files(zoo, name, family):
    folder = folder_of(zoo, name)

    assert resolve_model(folder) == ResolvedModel(family, folder)


@pytest.mark.parametrize(
    ("name", "pretrained", "family"),
    [
        ("eyechart-tiny", "", "onnx"),
        ("anything", "eyechart-tiny", "onnx"),
        ("image.onnx", "text.onnx", "onnx"),
        ("ViT-B-32", "", "open_clip"),
        ("ViT-B/32", "openai", "open_clip"),
        ("hf-hub:org/name", "", "open_clip"),
        ("local-dir:somewhere", "", "open_clip"),
        ("ViT-B-33", "openai", "open_clip"),
        ("internvl_c_retrieval", "x.pth", "internvl"),
        ("jina-clip-v2", "https://localhost/v1", "api"),
    ],
)
def test_names_that_leave_no_doubt(name, pretrained, family):
    assert resolve_model(name, pretrained) == ResolvedModel(family, name, pretrained)


def test_an_architecture_in_a_file_is_open_clips(zoo):
    assert resolve_model(zoo.case("open_clip").spec.name, "weights.pt").family == "open_clip"


@pytest.mark.parametrize("role", ["encoder", "generator"])
def test_own_code_by_its_path(role):
    assert resolve_model("python:a:b", role=role) == ResolvedModel("python", "python:a:b", factory="a:b")
    assert resolve_model("x", "y", family="python:a:b", role=role) == ResolvedModel("python", "x", "y", factory="a:b")


def test_the_name_of_an_installed_plugin(monkeypatch):
    monkeypatch.setattr(registry.Registry, "_points", lambda self: {f"my_{self.group}": None})

    assert resolve_model("my_models").family == "my_models"
    assert resolve_model("my_vlms", role="generator").family == "python"
    assert resolve_model("my_rerankers", role="reranker").family == "my_rerankers"


@pytest.mark.parametrize(
    ("role", "family"), [("encoder", "transformers"), ("generator", "transformers"), ("reranker", "cross-encoder")]
)
def test_a_hub_id_is_a_guess_and_said_to_be_one(role, family):
    found = resolve_model("openai/clip-vit-base-patch32", role=role)

    assert found.family == family
    assert f"openai/clip-vit-base-patch32 is loaded from the hub with {family}." in found.notice
    assert "object" not in found.notice  # internal: a model passed as a Python object
    assert resolve_model("openai/clip-vit-base-patch32", family=family, role=role).notice == ""


def test_the_guess_reaches_whoever_plans():
    said = []

    model_specs(make_config({"model": ["org/name"]}), "encoder", said.append)

    assert len(said) == 1
    assert "--model-type: api, internvl" in said[0]


def test_a_folder_with_the_same_model_in_two_forms_is_refused_with_the_choices(zoo, tmp_path):
    folder = shutil.copytree(folder_of(zoo, "clip"), tmp_path / "both")
    shutil.copy(f"{folder_of(zoo, 'onnx')}/image.onnx", folder)

    with pytest.raises(UsageError, match=r"Several families can load .*: onnx, transformers") as error:
        resolve_model(str(folder))

    assert "--model-type" in error.value.advice
    assert resolve_model(str(folder), family="onnx").family == "onnx"


def test_an_export_keeps_the_config_of_what_it_was_exported_from(zoo, tmp_path):
    # Without weights that transformers could read, there is no doubt; and the towers may lie one level deeper.
    folder = tmp_path / "export"
    (folder / "onnx").mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"model_type": "clip", "vision_config": {}}))
    (folder / "onnx" / "vision_model.onnx").write_bytes(b"")

    assert resolve_model(str(folder)).family == "onnx"


def test_plain_text_models_and_what_they_can_be(tmp_path):
    reader = save_tiny_cross_encoder(tmp_path / "pairs")

    assert resolve_model(reader, role="reranker").family == "cross-encoder"
    assert resolve_model(reader).family == "sentence-transformers"
    assert resolve_model(minilm()).family == "sentence-transformers"


def test_generators_by_folder(zoo, tmp_path):
    folder = save_tiny_vlm(tmp_path / "vlm")

    assert resolve_model(str(folder), role="generator").family == "transformers"
    assert resolve_model(folder_of(zoo, "open_clip-siglip"), role="generator").family == "open_clip"


def test_who_only_reads_is_refused_where_images_are_to_be_seen(zoo):
    with pytest.raises(UsageError, match="encodes texts only: it has no image processor"):
        check_sees(minilm())
    for name in ("clip", "onnx", "open_clip-siglip", "sentence-transformers-clip"):
        assert sees(zoo.case(name).parts[0].parent)
        check_sees(folder_of(zoo, name))


@pytest.mark.parametrize(("name", "role"), [("eyechart-tiny", "generator"), ("internvl_c_retrieval", "reranker")])
def test_a_model_that_cannot_do_what_it_shall(name, role):
    with pytest.raises(UsageError, match=f"which has no {role}s") as error:
        resolve_model(name, role=role)

    assert "transformers" in error.value.advice or "cross-encoder" in error.value.advice


@pytest.mark.parametrize("file", ["weights.pt", "model.safetensors"])
def test_a_checkpoint_alone_does_not_say_its_architecture(tmp_path, file):
    (tmp_path / file).write_bytes(b"x")

    with pytest.raises(UsageError, match="of unknown architecture") as error:
        resolve_model(str(tmp_path / file))

    assert "the file as --pretrained" in error.value.advice


def test_a_bare_name_that_nobody_knows_says_what_to_try():
    with pytest.raises(UnknownNameError, match="Unknown model: 'ViT-B-33'") as error:
        resolve_model("ViT-B-33")

    assert "Did you mean ViT-B-32" in error.value.advice
    assert "--model-type: api, internvl" in error.value.advice


def test_places_that_are_not_there_and_folders_that_hold_no_model(tmp_path):
    with pytest.raises(ModelError, match=r"File or folder not found: \./nowhere"):
        resolve_model("./nowhere")
    with pytest.raises(UsageError, match="Unknown kind of model folder"):
        resolve_model(str(tmp_path))


def test_a_folder_here_and_a_server_there_is_refused_with_the_choices(zoo):
    with pytest.raises(UsageError, match=r"Several families can load .*: transformers, api"):
        resolve_model(folder_of(zoo, "clip"), address="http://localhost:1/v1")


def test_every_family_that_is_inferred_exists():
    from eyechart.models.family import FOLDERS as TABLE
    from eyechart.models.resolve import HUB_FAMILIES, PREFIXES

    for role, table in TABLE.items():
        assert {*table, HUB_FAMILIES[role]} <= set(registry.FAMILIES[role].names())
    assert set(PREFIXES.values()) <= set(registry.ENCODERS.names())
