"""What is another model to the store: other weights, another transform, another precision. Nothing else."""

import dataclasses
import json
import shutil

import numpy as np
import pytest

from eyechart.errors import UsageError
from support.zoo import TEXTS, load, photos

ONE_OF_EACH = ["open_clip", "open_clip-siglip", "clip", "sentence-transformers-clip", "internvl_c_retrieval", "onnx"]
TORCH = [
    "open_clip",
    "clip",
    "siglip2-naflex",
    "blip2",
    "sentence-transformers-text",
    "internvl_g_retrieval_hf",
    "ja_clip",
]


def change_one_weight(path):
    """Add a little to one tensor of a weights file."""
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file, save_file

        state = load_file(path)
        name = next(name for name in state if state[name].is_floating_point() and state[name].dim() > 1)
        save_file({**state, name: state[name] + 0.01}, path, metadata={"format": "pt"})
    elif path.suffix == ".onnx":
        import onnx

        model = onnx.load(path)
        weight = next(part for part in model.graph.initializer if part.data_type == onnx.TensorProto.FLOAT)
        weight.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(weight) + 0.01, weight.name))
        onnx.save(model, path)
    else:
        import torch

        content = torch.load(path, weights_only=True)
        state = content.get("state_dict", content)
        name = next(name for name in state if state[name].dim() > 1)
        state[name] += 0.01
        torch.save(content, path)


def moved(case, folder):
    """Copy a case's files elsewhere and return the spec of the copy."""
    root = case.parts[0].parent
    shutil.copytree(root, folder)
    swap = {field: getattr(case.spec, field).replace(str(root), str(folder)) for field in ("name", "pretrained")}
    return dataclasses.replace(case.spec, **swap), folder / case.parts[0].name


@pytest.fixture(params=ONE_OF_EACH)
def case(zoo, request):
    return zoo.case(request.param)


def test_a_copy_elsewhere_on_another_device_is_the_same_model(case, tmp_path):
    spec, _ = moved(case, tmp_path / "copy")
    other = dataclasses.replace(spec, device="cpu", options={"cache_dir": str(tmp_path)})

    assert load(other).card.fingerprint == load(case.spec).card.fingerprint


def test_another_weight_is_another_model(case, tmp_path):
    spec, weights = moved(case, tmp_path / "copy")
    before = load(spec).card.fingerprint
    change_one_weight(weights)

    assert load(spec).card.fingerprint != before


@pytest.mark.parametrize("name", TORCH)
def test_another_precision_is_another_model_with_nearly_the_same_vectors(zoo, name):
    case, full = zoo.case(name), zoo.encoder(name)
    half = load(dataclasses.replace(case.spec, precision="bf16"))

    assert half.card.fingerprint != full.card.fingerprint
    expected = full.encode_texts(TEXTS)
    np.testing.assert_allclose(half.encode_texts(TEXTS), expected, atol=0.05 * np.abs(expected).max())
    if case.images:
        pixels = np.stack([full.prepare_image(image) for image in photos()])
        expected = full.encode_images(pixels)
        np.testing.assert_allclose(half.encode_images(pixels), expected, atol=0.05 * np.abs(expected).max())


def test_an_onnx_graph_has_the_precision_it_has(zoo):
    with pytest.raises(UsageError, match="exported with"):
        load(dataclasses.replace(zoo.case("onnx").spec, precision="fp16"))


@pytest.mark.parametrize(
    ("name", "file", "change"),
    [
        ("clip", "processor_config.json", lambda config: config["image_processor"].update(image_mean=[0.4, 0.4, 0.4])),
        ("open_clip-siglip", "open_clip_config.json", lambda config: config["preprocess_cfg"].update(mean=[0.4] * 3)),
        ("onnx", "preprocessor_config.json", lambda config: config.update(image_mean=[0.4, 0.4, 0.4])),
    ],
)
def test_another_image_transform_is_another_model(zoo, tmp_path, name, file, change):
    spec, weights = moved(zoo.case(name), tmp_path / "copy")
    config = json.loads((weights.parent / file).read_text())
    change(config)
    (weights.parent / file).write_text(json.dumps(config))

    assert load(spec).card.fingerprint != zoo.encoder(name).card.fingerprint


def test_another_context_length_is_another_model(zoo):
    spec = dataclasses.replace(zoo.case("clip").spec, options={"context_length": 20})

    shorter = load(spec)

    assert shorter.card.context_length == 20
    assert shorter.card.fingerprint != zoo.encoder("clip").card.fingerprint


def test_classification_and_retrieval_of_internvl_see_other_images(zoo):
    crop, squash = (zoo.encoder(f"internvl_c_{task}_hf") for task in ("classification", "retrieval"))
    wide = photos()[1]

    assert crop.card.weights_digest == squash.card.weights_digest
    assert crop.card.fingerprint != squash.card.fingerprint
    assert np.abs(crop.prepare_image(wide) - squash.prepare_image(wide)).max() > 0.1
