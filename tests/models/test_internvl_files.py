"""InternVL checkpoints that are not what they should be: one clear message each; what is merely more is noted."""

import copy
import json
import shutil
import subprocess
import sys
import time
import weakref
from pathlib import Path

import numpy as np
import pytest
import torch

from eyechart.cli import main
from eyechart.errors import ModelError, UnknownNameError, UsageError
from eyechart.models.internvl import checkpoint as weights_module
from eyechart.models.internvl.encoder import InternVLFamily
from eyechart.models.resolve import resolve_model
from eyechart.models.towers.checkpoints import read_state
from eyechart.types import ModelSpec
from support.hub_server import hub_serving
from support.internvl import (
    SMALL,
    SMALL_FILE,
    file_parameters,
    folder_parameters,
    weights,
    write_file,
    write_folder,
)
from support.zoo import load

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "benchmarks"))
import internvl_memory

NOISE = 2e7
"""Bytes that a process takes and gives back beside the weights."""
FOLDER, FILE = "internvl_g_retrieval_hf", "internvl_c_retrieval"
SHARD = "pytorch_model-00002-of-00003.bin"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("whole") / "InternVL-14B-224px")


@pytest.fixture
def folder(whole, tmp_path):
    """Return a copy that a test may spoil."""
    return shutil.copytree(whole, tmp_path / "InternVL-14B-224px")


def load_folder(folder):
    return load(ModelSpec("internvl", FOLDER, str(folder)))


@pytest.mark.parametrize(
    ("name", "pretrained", "message"),
    [
        ("internvl_c_clasification", "x", "Did you mean internvl_c_classification"),
        (FILE, "nowhere.pth", "Checkpoint not found"),
        (FOLDER, "./nowhere", "Folder not found"),
        (FOLDER, "InternVL-14B-224px", "Folder not found"),
        (FOLDER, "", "Pass the checkpoint with --pretrained"),
        (FILE, "", "Pass the checkpoint with --pretrained"),
    ],
)
def test_names_and_places(name, pretrained, message):
    with pytest.raises((ModelError, UnknownNameError, UsageError)) as error:
        load(ModelSpec("internvl", name, pretrained))

    assert message in str(error.value)


def test_the_forms_are_not_mixed_up(zoo):
    file, folder = (zoo.case(name).spec.pretrained for name in (FILE, FOLDER))

    with pytest.raises(UsageError, match="Use --model internvl_c_retrieval_hf"):
        load(ModelSpec("internvl", FILE, folder))
    with pytest.raises(UsageError, match=r"Use --model internvl_c_retrieval\."):
        load(ModelSpec("internvl", "internvl_c_retrieval_hf", file))
    with pytest.raises(UsageError, match=r"text_heads: only for \.pth files"):
        load(ModelSpec("internvl", FOLDER, folder, options={"text_heads": 2}))


def test_another_models_checkpoint_is_no_internvl(zoo, tmp_path):
    shutil.copy(zoo.case("open_clip").parts[0], tmp_path / "weights.pth")
    shutil.copy(zoo.case(FOLDER).parts[0].parent / "tokenizer.model", tmp_path)

    with pytest.raises(ModelError, match=r"not an InternVL-C checkpoint: 'patch_embed.proj.weight' is missing"):
        load(ModelSpec("internvl", FILE, str(tmp_path / "weights.pth")))


@pytest.mark.parametrize("name", ["clip_projector2.norm1_q.bias", "qllama.model.layers.3.cross_attn.k_proj.weight"])
def test_a_missing_weight_is_named(tmp_path, name):
    arrays = weights(folder_parameters(SMALL))
    del arrays[name]

    with pytest.raises(ModelError, match=rf"lacks the weights of 1 part of InternVL \({name}\)"):
        load_folder(write_folder(tmp_path / "model", arrays=arrays))


def test_a_missing_weight_of_a_file_is_called_as_the_file_would(tmp_path):
    arrays = weights(file_parameters(SMALL_FILE))
    del arrays["blocks.1.ls2.gamma"]
    path = write_file(tmp_path / "weights.pth", arrays=arrays)

    with pytest.raises(ModelError, match=r"\(blocks.1.ls2.gamma\)"):
        load(ModelSpec("internvl", FILE, str(path)))


def test_lora_weights_that_the_config_promises_must_be_there(tmp_path):
    config = {**SMALL, "use_backbone_lora": 4}

    with pytest.raises(ModelError, match=r"24 parts of InternVL \(vision_model.encoder.layers.0.attn.proj.lora_A"):
        load_folder(write_folder(tmp_path / "model", config))


def test_a_weight_too_many_is_noted_but_heads_for_other_tasks_are_not(tmp_path, whole):
    arrays = weights(folder_parameters(SMALL)) | {"vision_model.more.weight": np.ones(3, np.float16)}

    more = load_folder(write_folder(tmp_path / "model", arrays=arrays)).card
    usual = load_folder(whole).card

    assert "1 weight of the checkpoint is not used by the model (vision_model.more.weight)." in more.notes
    assert not [note for note in usual.notes if "not used" in note]
    assert more.weights_digest == usual.weights_digest


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_no_numbers_are_refused(tmp_path, value):
    arrays = weights(folder_parameters(SMALL))
    arrays["text_projection"][3, 4] = value

    with pytest.raises(ModelError, match=r"text_projection has values that are not finite in float32"):
        load_folder(write_folder(tmp_path / "model", arrays=arrays))


def test_weights_that_float16_cannot_hold_are_refused(tmp_path):
    arrays = {name: array.astype(np.float32) for name, array in weights(folder_parameters(SMALL)).items()}
    arrays["text_projection"][3, 4] = 1e6
    folder = write_folder(tmp_path / "model", arrays=arrays)

    with pytest.raises(ModelError, match="not finite in float16") as error:
        load(ModelSpec("internvl", FOLDER, str(folder), "fp16"))

    assert "--precision fp32" in str(error.value)


def test_a_shard_that_was_cut_short(folder):
    shard = folder / SHARD
    shard.write_bytes(shard.read_bytes()[:5000])

    with pytest.raises(ModelError, match=rf"{SHARD}: the file is damaged or does not contain weights"):
        load_folder(folder)


def test_a_shard_that_is_not_there(folder):
    (folder / SHARD).unlink()

    with pytest.raises(ModelError, match=rf"{SHARD}, listed in pytorch_model.bin.index.json, is missing"):
        load_folder(folder)


def test_a_shard_with_code_in_it_is_refused(folder):
    torch.save({"text_projection": time.sleep}, folder / SHARD)

    with pytest.raises(ModelError, match="refused, unpickling the file would run code"):
        load_folder(folder)


def test_a_shard_outside_the_folder_is_not_read(folder):
    index = folder / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"weight_map": {"text_projection": "../elsewhere.bin"}}))

    with pytest.raises(ModelError, match="outside its folder"):
        load_folder(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vision_config": None}, "vision_config is missing"),
        ({"qllama_config": {"hidden_size": 48, "num_attention_heads": 6}}, "is .*, but the model expects"),
        ({"clip_embed_dim": "many"}, "invalid value of clip_embed_dim: 'many'"),
        ({"clip_embed_dim": -3}, "clip_embed_dim must be positive, not -3"),
        ({"attn_pool_num_heads": 7}, "the width 48 is not divisible by 7 heads"),
        ({"num_query_token": 0}, "has no query tokens, which InternVL-G needs"),
        ({"vision_config": {**SMALL["vision_config"], "hidden_act": "maths"}}, "Unknown activation: 'maths'"),
        ({"vision_config": {**SMALL["vision_config"], "image_size": 84}}, r"is \[1, 10, 48\], but .* \[1, 37, 48\]"),
        ({"qllama_config": {**SMALL["qllama_config"], "rope_theta": 500000}}, "rope_theta is 500000"),
        ({"qllama_config": {**SMALL["qllama_config"], "num_key_value_heads": 2}}, "num_key_value_heads is 2"),
    ],
)
def test_a_config_of_something_else_names_what_is_wrong(folder, change, message):
    config = copy.deepcopy(SMALL) | change
    (folder / "config.json").write_text(json.dumps(config))

    with pytest.raises(ModelError, match=message):
        load_folder(folder)


def test_a_folder_without_config_or_weights(folder):
    for path in folder.glob("*.bin*"):
        path.unlink()
    with pytest.raises(ModelError, match="does not contain weights"):
        load_folder(folder)
    (folder / "config.json").unlink()
    with pytest.raises(ModelError, match=r"does not contain config\.json"):
        load_folder(folder)


@pytest.mark.parametrize("file", ["config.json", SHARD, "pytorch_model.bin.index.json", "tokenizer.model"])
def test_every_file_that_is_read_is_part_of_the_identity(folder, file):
    family, spec = InternVLFamily(), ModelSpec("internvl", FOLDER, str(folder))
    before = family.identity(spec)

    (folder / "README.md").write_text("not read")
    assert family.identity(spec) == before
    path = folder / file
    path.write_bytes(path.read_bytes() + b" ")
    assert family.identity(spec) != before


def test_llamas_config_beside_the_tokenizer_of_a_file_is_part_of_the_identity(tmp_path):
    path = write_file(tmp_path / "weights.pth")
    family, spec = InternVLFamily(), ModelSpec("internvl", FILE, str(path))
    before = family.identity(spec)

    (tmp_path / "chinese_alpaca_lora_7b" / "config.json").write_text('{"hidden_size": 256}')

    assert family.identity(spec) != before


def test_only_one_shard_is_in_memory_at_a_time(tmp_path, monkeypatch):
    alive = weakref.WeakSet()
    folder = write_folder(tmp_path / "model", shards=5)

    def watched(path):
        assert not alive, "the shard before this one is still there"
        state = read_state(path)
        alive.update(state.values())
        return state

    monkeypatch.setattr(weights_module, "read_state", watched)
    assert load_folder(folder).encode_texts(["a cat"]).shape == (1, 24)


def test_the_peak_of_loading_is_the_network_and_one_shard(tmp_path):
    config = internvl_memory.config_of(0.06)
    internvl_memory.write(tmp_path / "large", config, 8, "bin")
    internvl_memory.write(tmp_path / "tiny", internvl_memory.config_of(0), 1, "bin")
    command = [sys.executable, internvl_memory.__file__, "--child", tmp_path / "large", tmp_path / "tiny", "fp32"]

    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    shards = [path.stat().st_size for path in (tmp_path / "large").glob("*.bin")]
    assert found["network"] > 1e8
    assert found["peak"] < found["network"] + max(shards) + NOISE < found["network"] + sum(shards)


def test_the_folder_as_a_model_is_told_the_names_to_choose_from(whole):
    with pytest.raises(UsageError, match="--model internvl_g_retrieval_hf --pretrained"):
        resolve_model(str(whole))


def test_a_path_that_looks_like_a_hub_id_is_not_asked_for_on_a_hub(tmp_path, monkeypatch):
    (tmp_path / "pretrained").mkdir()
    monkeypatch.chdir(tmp_path)

    with pytest.raises(ModelError, match="Folder not found: pretrained/InternVL-14B-224px"):
        load(ModelSpec("internvl", FOLDER, "pretrained/InternVL-14B-224px"))


@pytest.mark.parametrize("hub", ["huggingface", "modelscope"])
def test_a_hub_id_is_downloaded_and_known_afterwards(whole, tmp_path, monkeypatch, hub):
    shutil.copytree(whole, tmp_path / "hub" / "OpenGVLab" / "InternVL-14B-224px")
    options = {"hub": hub, "cache_dir": str(tmp_path / "cache")}
    spec = ModelSpec("internvl", FOLDER, "OpenGVLab/InternVL-14B-224px", options=options)
    monkeypatch.chdir(tmp_path)
    with hub_serving(tmp_path / "hub") as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.setenv("MODELSCOPE_ENDPOINT", server.url)
        monkeypatch.setenv("MODELSCOPE_HOME", str(tmp_path / "modelscope"))
        monkeypatch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1")
        assert InternVLFamily().identity(spec) is None
        encoder = load(spec)

    assert encoder.card.fingerprint == load_folder(whole).card.fingerprint
    assert InternVLFamily().identity(spec) is not None


def test_info_shows_the_model_without_naming_its_family(whole, capsys):
    assert main(["info", FOLDER, "--pretrained", str(whole)]) == 0

    assert "internvl" in capsys.readouterr().out
