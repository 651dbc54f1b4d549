"""InternVL: the vectors of the authors' own code, and of networks of other sizes by a second reading in numpy."""

import copy
import dataclasses
import json

import numpy as np
import pytest
import torch
from PIL import Image

from eyechart import config as settings
from eyechart.metrics.vectors import unit
from eyechart.plan_models import model_specs
from eyechart.types import ModelSpec
from support.internvl import (
    DATA,
    SMALL,
    SMALL_FILE,
    file_parameters,
    folder_parameters,
    weights,
    write_file,
    write_folder,
)
from support.internvl_reference import Reference
from support.zoo import load, photos
from support.zoo_internvl import ids_of, pixels_of

ORACLE = {form: json.loads((DATA / f"{form}.json").read_text()) for form in ("folder", "pth")}
TEXTS = ["a photo of a cat", "ein Foto von einem Hund", "一只猫坐在草地上看着天空"]


@pytest.fixture(scope="module")
def oracle(tmp_path_factory):
    """Write the two checkpoints whose vectors the authors' code computed."""
    place = tmp_path_factory.mktemp("oracle")
    write_folder(place / "InternVL-14B-224px", ORACLE["folder"]["config"], weights(ORACLE["folder"]["parameters"]))
    # The tokenizer is the other folder's.
    write_file(place / "internvl_c_13b_224px.pth", arrays=weights(ORACLE["pth"]["parameters"]), vocabulary=False)
    return place


@pytest.mark.parametrize(
    ("name", "images", "texts"),
    [
        ("internvl_c_classification", "classification_images", "texts"),
        ("internvl_c_retrieval", "retrieval_images", "texts"),
        ("internvl_c_classification_hf", "c_classification_images", "c_texts"),
        ("internvl_c_retrieval_hf", "c_retrieval_images", "c_texts"),
        ("internvl_g_classification_hf", "g_classification_images", "g_texts"),
        ("internvl_g_retrieval_hf", "g_retrieval_images", "g_texts"),
    ],
)
def test_vectors_are_those_of_the_authors_code(oracle, name, images, texts):
    form = "folder" if name.endswith("_hf") else "pth"
    expected = np.load(DATA / f"{form}_expected.npz")
    place = oracle / ("InternVL-14B-224px" if form == "folder" else "internvl_c_13b_224px.pth")

    encoder = load(ModelSpec("internvl", name, str(place)))
    seen = encoder.encode_images(
        np.stack([encoder.prepare_image(Image.open(DATA / f"image{i}.png")) for i in range(4)])
    )
    read = encoder._text_features(encoder.model, {"ids": torch.from_numpy(expected["ids"])}).numpy()

    np.testing.assert_allclose(unit(seen), unit(expected[images]), atol=1e-5)
    np.testing.assert_allclose(unit(read), unit(expected[texts]), atol=1e-5)


def test_the_lists_of_parameters_that_other_tests_use_are_those_of_the_authors_code():
    arguments, llama = ORACLE["pth"]["arguments"], ORACLE["pth"]["llm_config"]
    sizes = arguments | {
        "hidden": arguments["mlp_ratio"] * arguments["embed_dim"], "transformer_hidden": llama["intermediate_size"],
        "layers": llama["num_hidden_layers"], "words": llama["vocab_size"],
    }  # fmt: skip

    assert folder_parameters(ORACLE["folder"]["config"]) == ORACLE["folder"]["parameters"]
    assert file_parameters(sizes) == ORACLE["pth"]["parameters"]


def other(**changes):
    """Return the small config with other values; a dotted part of a name is a part of the config."""
    config = copy.deepcopy(SMALL)
    for key, value in changes.items():
        *parts, last = key.split("__")
        inner = config
        for part in parts:
            inner = inner[part]
        inner[last] = value
    return config


def assert_like_reference(encoder, reference, letter, vocabulary, size):
    seen = encoder.encode_images(np.stack([encoder.prepare_image(image) for image in photos()[:2]]))
    expected = {"c": reference.image_c, "g": reference.image_g}[letter](pixels_of(photos()[:2], size, crop=False))
    np.testing.assert_allclose(unit(seen), unit(expected), atol=1e-5)
    np.testing.assert_allclose(
        unit(encoder.encode_texts(TEXTS)), unit(reference.texts(ids_of(vocabulary, TEXTS))), atol=1e-5
    )


@pytest.mark.parametrize(
    "config",
    [
        other(),
        other(num_query_token=96, cross_attention_frequency=1, attn_pool_num_heads=2),
        other(num_query_token=32),  # too few: the published network does not look at the image then
        other(vision_config__qkv_bias=True, vision_config__qk_normalization=False),
        other(force_image_size=70, vision_config__num_attention_heads=4, qllama_config__num_attention_heads=2),
        other(vision_config__patch_size=12, vision_config__image_size=40),  # the last pixels are in no patch
    ],
    ids=["small", "every-layer", "few-queries", "plain-attention", "other-image-size", "ragged-patches"],
)
def test_any_size_runs_without_a_special_case(tmp_path, config):
    folder = write_folder(tmp_path / "model", config)
    reference = Reference.of_config(weights(folder_parameters(config)), config)
    size = config.get("force_image_size") or config["vision_config"]["image_size"]

    encoder = load(ModelSpec("internvl", "internvl_g_retrieval_hf", str(folder)))

    assert_like_reference(encoder, reference, "g", folder / "tokenizer.model", size)
    assert encoder.card.image_size == size


@pytest.mark.parametrize("place", ["chinese_alpaca_lora_7b", "InternVL-14B-224px", "."])
def test_the_heads_of_a_file_are_128_wide_or_what_llamas_config_or_the_user_says(tmp_path, place):
    """The config lies beside the vocabulary, or where the authors have it."""
    sizes = SMALL_FILE | {"embed_dim": 96, "transformer_width": 192}
    path = write_file(tmp_path / "weights.pth", sizes)
    shipped = tmp_path / "chinese_alpaca_lora_7b"
    llama = {"hidden_size": 192, "num_attention_heads": 6, "rms_norm_eps": 1e-3}
    (shipped / "config.json").write_text(json.dumps(llama))
    (tmp_path / place).mkdir(exist_ok=True)
    vocabulary = (shipped / "tokenizer.model").rename(tmp_path / place / "tokenizer.model")
    heads = {"vision_heads": 3, "pool_heads": 8}
    reference = Reference.of_file(weights(file_parameters(sizes)), text_heads=6, text_eps=1e-3, **heads)

    encoder = load(ModelSpec("internvl", "internvl_c_retrieval", str(path), options=heads))

    assert_like_reference(encoder, reference, "c", vocabulary, 32)


@pytest.mark.parametrize("wrapper", ["module", "model", "state_dict"])
def test_a_file_that_training_wrote_is_unwrapped(tmp_path, wrapper):
    """Parameters saved as such bring no gradients into the network."""
    path = write_file(tmp_path / "weights.pth")
    state = {name: torch.nn.Parameter(tensor) for name, tensor in torch.load(path).items()}
    torch.save({wrapper: state, "epoch": 3}, path)
    reference = Reference.of_file(weights(file_parameters(SMALL_FILE)), vision_heads=2, text_heads=2, pool_heads=16)

    encoder = load(ModelSpec("internvl", "internvl_c_retrieval", str(path)))

    assert_like_reference(encoder, reference, "c", tmp_path / "chinese_alpaca_lora_7b" / "tokenizer.model", 32)
    assert not any(parameter.requires_grad for parameter in encoder.model.parameters())


@pytest.mark.parametrize("form", ["bin", "safetensors"])
@pytest.mark.parametrize("shards", [1, 4])
@pytest.mark.parametrize("index", [True, False])
def test_shards_of_either_kind_are_the_same_model(zoo, tmp_path, form, shards, index):
    folder = write_folder(tmp_path / "model", shards=shards, form=form)
    if not index:
        for path in folder.glob("*.index.json"):
            path.unlink()

    encoder = load(ModelSpec("internvl", "internvl_g_retrieval_hf", str(folder)))

    assert encoder.card.weights_digest == zoo.encoder("internvl_g_retrieval_hf").card.weights_digest


def with_lora(arrays, targets, rank, rename):
    """Add random LoRA weights under peft's names; return those arrays, and what they are when they are merged."""
    stored, merged = {}, dict(arrays)
    for name, array in arrays.items():
        layer = name.removesuffix(".weight")
        if not name.endswith(targets):
            stored[rename(name)] = array
            continue
        down = np.random.default_rng(len(name)).standard_normal((rank, array.shape[1])).astype(np.float16) / 100
        up = np.random.default_rng(len(name) + 1).standard_normal((array.shape[0], rank)).astype(np.float16) / 100
        stored[rename(f"{layer}.base_layer.weight")] = array
        stored[rename(f"{layer}.lora_A.default.weight")] = down
        stored[rename(f"{layer}.lora_B.default.weight")] = up
        merged[name] = array.astype(np.float64) + 256 / rank * up.astype(np.float64) @ down.astype(np.float64)
    return stored, merged


VISION = tuple(f"{name}.weight" for name in ("attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2"))
TEXT = tuple(
    f"{name}_proj.weight" for name in (*(f"self_attn.{letter}" for letter in "qkvo"), "mlp.gate", "mlp.up", "mlp.down")
)


def test_lora_weights_of_a_folder_are_merged(tmp_path):
    config = other(use_backbone_lora=4, use_qllama_lora=2)
    arrays = weights(folder_parameters(config))
    parts = {part: {k: v for k, v in arrays.items() if k.startswith(part)} for part in ("vision_model.", "qllama.")}
    see, seen = with_lora(
        parts["vision_model."], VISION, 4, lambda name: name.replace("vision_model.", "vision_model.base_model.model.")
    )
    read, understood = with_lora(
        parts["qllama."], TEXT, 2, lambda name: name.replace("qllama.", "qllama.base_model.model.")
    )
    rest = {k: v for k, v in arrays.items() if not k.startswith(("vision_model.", "qllama."))}
    folder = write_folder(tmp_path / "model", config, rest | see | read)
    reference = Reference.of_config(arrays | seen | understood, config)

    encoder = load(ModelSpec("internvl", "internvl_g_retrieval_hf", str(folder)))

    assert_like_reference(encoder, reference, "g", folder / "tokenizer.model", 42)
    assert encoder.card.notes == (VOCABULARY_NOTE,)


def test_lora_weights_of_a_file_are_merged(tmp_path):
    arrays = weights(file_parameters(SMALL_FILE))
    blocks = {name: array for name, array in arrays.items() if name.startswith("blocks.")}
    stored, merged = with_lora(blocks, VISION, 4, lambda name: name)
    path = write_file(tmp_path / "weights.pth", arrays={k: v for k, v in arrays.items() if k not in blocks} | stored)
    reference = Reference.of_file(arrays | merged, vision_heads=2, text_heads=2, pool_heads=16)

    encoder = load(ModelSpec("internvl", "internvl_c_retrieval", str(path)))

    assert_like_reference(encoder, reference, "c", tmp_path / "chinese_alpaca_lora_7b" / "tokenizer.model", 32)


VOCABULARY_NOTE = "The tokenizer has 386 pieces, but the model has embeddings for 400: check that they belong together."


def test_half_precision_holds_half_precision_weights(zoo):
    half = load(dataclasses.replace(zoo.case("internvl_g_retrieval_hf").spec, precision="fp16"))

    assert {parameter.dtype for parameter in half.model.parameters()} == {torch.float16}


@pytest.mark.parametrize("name", ["internvl_g_retrieval_hf", "internvl_c_retrieval"])
def test_mixed_precision_gives_nearly_the_same_vectors(zoo, name):
    exact, mixed = zoo.encoder(name), load(dataclasses.replace(zoo.case(name).spec, precision="amp"))
    pixels = np.stack([exact.prepare_image(image) for image in photos()[:2]])

    np.testing.assert_allclose(unit(mixed.encode_images(pixels)), unit(exact.encode_images(pixels)), atol=0.03)
    np.testing.assert_allclose(unit(mixed.encode_texts(TEXTS)), unit(exact.encode_texts(TEXTS)), atol=0.03)


@pytest.mark.parametrize(("gpus", "precision"), [(0, "fp32"), (1, "fp16")])
def test_a_gpu_computes_in_float16_unless_told_otherwise(monkeypatch, gpus, precision):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    asked = {"model": ["internvl_c_retrieval"], "pretrained": ["x.pth"], "dataset": ["d"]}

    def planned(**more):
        (spec,) = model_specs(settings.make_config({**asked, **more}))
        return spec.precision

    assert planned() == precision
    assert planned(device="cpu") == "fp32"
    assert planned(precision="bf16") == "bf16"
