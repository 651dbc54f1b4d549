"""Models that cannot be loaded: one clear message each, and nothing of theirs is run."""

import dataclasses
import json
import os
import pickle
import shutil
import sys
import zipfile

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from eyechart.errors import MissingExtraError, ModelError, UsageError
from eyechart.models.registry import GENERATORS, RERANKERS
from eyechart.types import ModelSpec
from support import zoo_open_clip
from support.text_models import save_tiny_cross_encoder
from support.tiny_vlm import save_tiny_vlm
from support.zoo import TEXTS, load


@pytest.mark.parametrize(
    ("family", "library", "line"),
    [
        ("open_clip", "open_clip", "pip install 'eyechart[open-clip]'"),
        ("transformers", "transformers", "pip install 'eyechart[transformers]'"),
        ("internvl", "sentencepiece", "pip install 'eyechart[transformers]'"),
        ("sentence-transformers", "sentence_transformers", "pip install 'eyechart[sentence-transformers]'"),
        ("ja_clip", "japanese_clip", "pip install git+https://github.com/rinnakk/japanese-clip.git"),
    ],
)
def test_a_missing_library_names_the_pip_line(monkeypatch, family, library, line):
    monkeypatch.setitem(sys.modules, library, None)

    with pytest.raises(MissingExtraError) as error:
        load(ModelSpec(family, "anything"))

    assert line in str(error.value)


class Bomb:
    """Unpickled, it would make a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def checkpoint(zoo, path, content):
    """Return the spec of the small open_clip model with another checkpoint."""
    path.write_bytes(content)
    return dataclasses.replace(zoo.case("open_clip").spec, pretrained=str(path))


@pytest.mark.parametrize("name", ["weights.pt", "weights.pth", "weights.bin"])
def test_a_pickle_with_code_is_refused_and_not_run(zoo, tmp_path, name):
    trap = tmp_path / "trap"
    torch.save({"state_dict": Bomb(trap)}, tmp_path / "made.pt")
    spec = checkpoint(zoo, tmp_path / name, (tmp_path / "made.pt").read_bytes())

    with pytest.raises(ModelError, match="refused, unpickling the file would run code"):
        load(spec)

    assert not trap.exists()


def test_a_bare_pickle_with_code_is_refused_and_not_run(zoo, tmp_path):
    trap = tmp_path / "trap"
    spec = checkpoint(zoo, tmp_path / "weights.pt", pickle.dumps(Bomb(trap), protocol=2))

    with pytest.raises(ModelError, match=r"refused|damaged"):
        load(spec)

    assert not trap.exists()


@pytest.mark.parametrize("name", ["weights.pt", "weights.safetensors"])
@pytest.mark.parametrize(
    "content", [b"", b"not a checkpoint at all", bytes(range(256)) * 8], ids=["empty", "text", "bytes"]
)
def test_a_file_that_is_no_checkpoint(zoo, tmp_path, name, content):
    with pytest.raises(ModelError, match=r"weights.*damaged or does not contain weights"):
        load(checkpoint(zoo, tmp_path / name, content))


@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
def test_a_checkpoint_that_was_cut_short(zoo, tmp_path, suffix):
    case = zoo.case("open_clip" if suffix == ".pt" else "open_clip-coca")
    whole = case.parts[0].read_bytes()
    cut = tmp_path / f"weights{suffix}"
    cut.write_bytes(whole[: len(whole) // 2])

    with pytest.raises(ModelError, match="damaged or does not contain weights"):
        load(dataclasses.replace(case.spec, pretrained=str(cut)))


def test_a_checkpoint_of_another_architecture_names_the_keys(zoo, tmp_path):
    architecture, _ = zoo_open_clip.make(
        tmp_path,
        zoo_open_clip.PLAIN | {"vision_cfg": zoo_open_clip.VISION | {"layers": 3, "width": 32}},
        "made-other",
    )
    spec = dataclasses.replace(zoo.case("open_clip").spec, name=str(architecture))

    with pytest.raises(ModelError) as error:
        load(spec)

    assert "missing visual.transformer.resblocks.2" in str(error.value)
    assert "weights of another shape (" in str(error.value)


@pytest.mark.filterwarnings("ignore::FutureWarning")  # TorchScript is on its way out, its files are not
def test_a_torchscript_archive_is_a_program(zoo, tmp_path):
    torch.jit.save(torch.jit.trace(torch.nn.Linear(2, 2), torch.zeros(1, 2)), tmp_path / "weights.pt")
    spec = dataclasses.replace(zoo.case("open_clip").spec, pretrained=str(tmp_path / "weights.pt"))

    with pytest.raises(ModelError, match="TorchScript archive"):
        load(spec)


def test_a_missing_checkpoint(zoo):
    with pytest.raises(ModelError, match="Checkpoint not found"):
        load(dataclasses.replace(zoo.case("open_clip").spec, pretrained="nowhere/weights.pt"))


def copied(zoo, name, tmp_path):
    case = zoo.case(name)
    root = case.parts[0].parent
    shutil.copytree(root, tmp_path / "copy")
    swap = {
        field: getattr(case.spec, field).replace(str(root), str(tmp_path / "copy")) for field in ("name", "pretrained")
    }
    return dataclasses.replace(case.spec, **swap), tmp_path / "copy" / case.parts[0].name


@pytest.mark.parametrize(
    "name", ["clip", "siglip", "open_clip-xlmr", "sentence-transformers-clip", "internvl_c_retrieval_hf"]
)
def test_a_folder_whose_weights_were_cut_short(zoo, tmp_path, name):
    spec, weights = copied(zoo, name, tmp_path)
    whole = weights.read_bytes()
    weights.write_bytes(whole[: len(whole) // 2])

    with pytest.raises(ModelError, match="damaged or does not contain weights"):
        load(spec)


def test_missing_weights_are_not_made_up(zoo, tmp_path):
    spec, weights = copied(zoo, "clip", tmp_path)
    state = load_file(weights)
    save_file({name: tensor for name, tensor in state.items() if "projection" not in name}, weights, {"format": "pt"})

    with pytest.raises(ModelError, match=r"lacks the weights of 2 parts of CLIPModel \(text_projection.weight"):
        load(spec)


def without(part, weights):
    """Take the weights whose names hold a word out of a file."""
    state = load_file(weights)
    kept = {name: tensor for name, tensor in state.items() if part not in name}
    assert len(kept) < len(state)
    save_file(kept, weights, {"format": "pt"})


def test_missing_weights_are_not_made_up_behind_another_library(zoo, tmp_path):
    spec, weights = copied(zoo, "sentence-transformers-text", tmp_path)
    without("layer.1.", weights)

    with pytest.raises(ModelError, match=r"lacks the weights of \d+ parts of"):
        load(spec)


@pytest.mark.parametrize(
    ("save", "family", "part"),
    [
        (save_tiny_cross_encoder, (RERANKERS, "cross-encoder"), "classifier"),
        (save_tiny_vlm, (GENERATORS, "transformers"), "multi_modal_projector"),
    ],
)
def test_a_head_without_weights_is_not_made_up(tmp_path, save, family, part):
    registry, name = family
    spec = ModelSpec(name, str(save(tmp_path / "model")))
    registry.load(name)().load(spec)
    without(part, tmp_path / "model" / "model.safetensors")

    with pytest.raises(ModelError, match=rf"lacks the weights of \d parts of .*{part}"):
        registry.load(name)().load(spec)


def test_a_part_that_nobody_asks_for_may_be_missing_and_does_not_make_another_model_every_time(zoo, tmp_path):
    spec, weights = copied(zoo, "sentence-transformers-text", tmp_path)
    before = load(spec)
    without("pooler.", weights)

    one, two = load(spec), load(spec)

    assert one.card.fingerprint == two.card.fingerprint != before.card.fingerprint
    np.testing.assert_array_equal(one.encode_texts(TEXTS), before.encode_texts(TEXTS))


def test_weights_of_another_size_name_the_keys(zoo, tmp_path):
    spec, weights = copied(zoo, "clip", tmp_path)
    state = load_file(weights)
    save_file({**state, "text_projection.weight": torch.zeros(3, 3)}, weights, {"format": "pt"})

    with pytest.raises(ModelError, match=r"text_projection.weight: \[3, 3\], expected \[24, 32\]"):
        load(spec)


def test_a_transformers_pickle_with_code_is_refused_and_not_run(zoo, tmp_path):
    spec, weights = copied(zoo, "clip", tmp_path)
    weights.unlink()
    trap = tmp_path / "trap"
    torch.save({"logit_scale": Bomb(trap)}, weights.parent / "pytorch_model.bin")

    with pytest.raises(ModelError, match="refused"):
        load(spec)

    assert not trap.exists()


def test_a_model_that_is_no_dual_encoder(tmp_path):
    from transformers import BertConfig, BertModel

    from support.zoo_tokenizers import bert_tokenizer

    tokenizer = bert_tokenizer(tmp_path)
    small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    BertModel(BertConfig(vocab_size=len(tokenizer), **small)).save_pretrained(tmp_path)

    with pytest.raises(ModelError, match="BertModel, which has no get_image_features"):
        load(ModelSpec("transformers", str(tmp_path)))


def test_code_in_a_model_folder_needs_trust(zoo):
    with pytest.raises(ModelError, match="contains custom code") as error:
        load(dataclasses.replace(zoo.case("remote-code").spec, options={}))

    assert "--trust-remote-code" in str(error.value)


def test_an_onnx_folder_that_lacks_a_file(tmp_path):
    for name in ("image.onnx", "tokenizer_config.json"):
        (tmp_path / name).write_bytes(b"")

    with pytest.raises(ModelError, match=r": preprocessor_config.json, text.onnx, tokenizer.json"):
        load(ModelSpec("onnx", str(tmp_path)))


def test_a_damaged_onnx_file(zoo, tmp_path):
    spec, weights = copied(zoo, "onnx", tmp_path)
    weights.write_bytes(weights.read_bytes()[:1000])

    with pytest.raises(ModelError, match=r"Cannot load the ONNX model .*image.onnx"):
        load(spec)


def test_cuda_that_is_not_there(zoo):
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    for name in ("open_clip", "onnx"):
        with pytest.raises((UsageError, ModelError), match="--device"):
            load(dataclasses.replace(zoo.case(name).spec, device="cuda"))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("python:nowhere_module:make", "Python module not found: 'nowhere_module'"),
        ("python:nowhere.sub:make", "Python module not found: 'nowhere.sub'"),
        ("python:own_broken", "is not a valid model"),
        ("python:own_broken:nothing", "has no attribute 'nothing'"),
        ("python:own_broken:number", "is a int, not a function or class"),
        ("python:own_broken:make_list", "python:own_broken:make_list: list is not a model"),
        ("python:own_broken:Short", "returned shape (1, 2) for 5 inputs"),
    ],
)
def test_own_code_that_does_not_fit(tmp_path, monkeypatch, name, message):
    (tmp_path / "own_broken.py").write_text(
        "import numpy as np\n"
        "number = 3\n"
        "def make_list(): return []\n"
        "class Short:\n"
        "    def encode_images(self, batch): return np.ones((1, 2))\n"
        "    def encode_texts(self, texts): return np.ones((1, 2))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises((UsageError, ModelError)) as error:
        load(ModelSpec("python", name)).encode_texts(["a"] * 5)

    assert message in str(error.value)


def test_a_zip_that_is_no_checkpoint(zoo, tmp_path):
    with zipfile.ZipFile(tmp_path / "weights.pt", "w") as archive:
        archive.writestr("readme.txt", json.dumps({}))
    spec = dataclasses.replace(zoo.case("open_clip").spec, pretrained=str(tmp_path / "weights.pt"))

    with pytest.raises(ModelError, match="damaged or does not contain weights"):
        load(spec)


def test_weights_without_a_place_in_the_model_are_noted(zoo, tmp_path):
    folder = shutil.copytree(zoo.case("clip").spec.name, tmp_path / "lora")
    weights = load_file(folder / "model.safetensors")
    name = next(name for name in weights if name.endswith("q_proj.weight"))
    weights[name.replace("weight", "lora_A")] = torch.ones(4, 32)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})

    (note,) = load(ModelSpec("transformers", str(folder))).card.notes
    assert note.startswith("1 weight of the checkpoint is not used by the model")


def test_an_adapter_that_is_not_loaded_is_refused(zoo, tmp_path):
    folder = shutil.copytree(zoo.case("clip").spec.name, tmp_path / "adapter")
    (folder / "adapter_config.json").write_text('{"peft_type": "LORA"}')

    with pytest.raises(ModelError, match="contains an adapter"):
        load(ModelSpec("transformers", str(folder)))


@pytest.mark.parametrize(
    ("name", "setting"), [("clip", {"padding_side": "left"}), ("chinese_clip", {"model_input_names": ["input_ids"]})]
)
def test_vectors_that_depend_on_the_texts_beside_are_noted(zoo, tmp_path, name, setting):
    folder = shutil.copytree(zoo.case(name).spec.name, tmp_path / "padded")
    config = folder / "tokenizer_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | setting))

    assert not zoo.encoder(name).card.notes
    assert "different vectors for the same text" in load(ModelSpec("transformers", str(folder))).card.notes[0]


def test_several_vectors_for_one_text_are_refused(zoo, monkeypatch):
    encoder = zoo.encoder("clip")
    monkeypatch.setattr(encoder, "_text", lambda model, inputs: torch.ones(1, 5, 8))

    with pytest.raises(ModelError, match="returns an array with 2 axes per text"):
        encoder.encode_texts(["a"])


def test_images_that_are_not_made_one_size_are_refused(zoo):
    with pytest.raises(ModelError, match="different sizes"):
        zoo.encoder("clip").encode_images([np.zeros((3, 32, 32)), np.zeros((3, 32, 40))])
