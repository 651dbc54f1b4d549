"""An exported image tower alone is an image encoder: the vectors of the exported model, and no tasks with texts."""

import json
import shutil
import warnings

import numpy as np
import onnx
import pytest

from eyechart import evaluate
from eyechart.demo import model_folder
from eyechart.errors import EyechartError, ModelError
from eyechart.models.registry import family_of, inputs_of
from eyechart.models.resolve import resolve_model
from eyechart.types import ModelSpec
from support.makers import MAKERS
from support.retrieval_data import write_collection
from support.zoo import as_array, load, photos, seeded

OUTPUTS = ("last_hidden_state", "pooler_output", "grid_first", "grid_last")
SIZE = {"height": 28, "width": 28}


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Export a small DINOv2 with its tokens, its pooled output and its patches as a grid; return its vectors, too."""
    import torch
    from transformers import BitImageProcessorPil, Dinov2Config, Dinov2Model

    seeded()
    folder = tmp_path_factory.mktemp("dinov2")
    config = Dinov2Config(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, image_size=28, patch_size=7, hidden_dropout_prob=0.0
    )
    model = Dinov2Model(config).eval()
    pixels = BitImageProcessorPil(size={"shortest_edge": 32}, crop_size=SIZE)

    class Image(torch.nn.Module):
        def forward(self, pixel_values):
            states = model(pixel_values).last_hidden_state
            last = states[:, 1:].reshape(-1, 4, 4, 32)
            return states, states[:, 0] * 2, last.permute(0, 3, 1, 2), last

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter, about its own names of axes
        program = torch.onnx.export(
            Image().eval(), kwargs={"pixel_values": torch.zeros(2, 3, 28, 28)}, input_names=["pixel_values"],
            output_names=list(OUTPUTS), dynamic_shapes={"pixel_values": {0: torch.export.Dim("batch")}},
            dynamo=True, verbose=False,
        )  # fmt: skip
    program.save(folder / "image.onnx")
    pixels.save_pretrained(folder)
    with torch.no_grad():
        inputs = pixels(images=[image.convert("RGB") for image in photos()], return_tensors="pt")
        return folder, dict(zip(OUTPUTS, map(as_array, Image()(inputs["pixel_values"])), strict=True))


def tower(exported, folder, outputs, *, name="model.onnx", config=None):
    """Write a folder with the tower, reduced to some outputs."""
    shutil.copytree(exported, folder)
    model = onnx.load(folder / "image.onnx")
    (folder / "image.onnx").unlink()
    kept = [output for output in model.graph.output if output.name in outputs]
    del model.graph.output[:]
    model.graph.output.extend(kept)
    (folder / name).parent.mkdir(exist_ok=True)
    onnx.save(model, folder / name)
    if config is not None:
        (folder / "config.json").write_text(json.dumps({"model_type": config}))
    return folder


def vectors_of(encoder, rows=slice(None)):
    return encoder.encode_images(np.stack([encoder.prepare_image(image) for image in photos()])[rows])


@pytest.mark.parametrize(
    ("outputs", "config", "pooled"),
    [
        (["last_hidden_state"], None, lambda found: found["last_hidden_state"][:, 0]),
        (["last_hidden_state"], "dinov2", lambda found: found["last_hidden_state"][:, 0]),
        (["last_hidden_state", "pooler_output"], "dinov2", lambda found: found["pooler_output"]),
        (["last_hidden_state", "pooler_output"], "vit", lambda found: found["last_hidden_state"][:, 0]),
        (["pooler_output"], "swin", lambda found: found["pooler_output"]),
        (["grid_first"], None, lambda found: found["grid_first"].mean((2, 3))),
        (["grid_last"], None, lambda found: found["grid_last"].mean((1, 2))),
    ],
    ids=["tokens", "dinov2", "dinov2-pooled", "vit", "swin", "grid-first", "grid-last"],
)
@pytest.mark.parametrize("name", ["image.onnx", "onnx/model.onnx"])
def test_an_image_tower_has_the_vectors_of_the_exported_model(exported, tmp_path, name, outputs, config, pooled):
    folder = tower(exported[0], tmp_path / "model", outputs, name=name, config=config)
    spec = ModelSpec(resolve_model(str(folder)).family, str(folder))
    encoder = load(spec)

    np.testing.assert_allclose(vectors_of(encoder), pooled(exported[1]), atol=1e-5)
    np.testing.assert_allclose(vectors_of(encoder, [2]), pooled(exported[1])[[2]], atol=1e-5)
    assert (spec.family, encoder.card.inputs, encoder.card.embedding_dim) == ("onnx", ("image",), 32)
    assert tuple(inputs_of(family_of(spec, "encoder"), spec)) == ("image",)
    is_pooled = "pooler_output" in outputs and config != "vit"
    assert ("several vectors per image" in str(encoder.card.notes)) != is_pooled
    with pytest.raises(ModelError, match="encodes images, not texts"):
        encoder.encode_texts(["a"])


def test_the_pooling_is_part_of_the_fingerprint(exported, tmp_path):
    outputs = ["last_hidden_state", "pooler_output"]
    folder = tower(exported[0], tmp_path / "model", outputs, config="dinov2")
    pooled = load(ModelSpec("onnx", str(folder))).card
    (folder / "config.json").write_text(json.dumps({"model_type": "vit"}))

    assert load(ModelSpec("onnx", str(folder))).card.fingerprint != pooled.fingerprint


def test_the_file_alone_is_a_model(exported, tmp_path):
    folder = tower(exported[0], tmp_path / "model", ["pooler_output"], name="dino.onnx")
    found = resolve_model(str(folder / "dino.onnx"))

    encoder = load(ModelSpec(found.family, found.name))
    np.testing.assert_allclose(vectors_of(encoder), exported[1]["pooler_output"], atol=1e-5)


def test_tokens_of_a_model_that_pools_otherwise_are_refused(exported, tmp_path):
    folder = tower(exported[0], tmp_path / "model", ["last_hidden_state"], config="ijepa")

    with pytest.raises(ModelError, match="not one vector per input"):
        load(ModelSpec("onnx", str(folder)))


@pytest.mark.parametrize(
    ("removed", "missing"),
    [
        (["text.onnx", "tokenizer.json", "preprocessor_config.json"], ": preprocessor_config.json."),
        (["text.onnx"], ": text.onnx."),
        (["tokenizer.json"], ": tokenizer.json."),
    ],
)
def test_what_is_missing_is_named(tmp_path, removed, missing):
    folder = shutil.copytree(model_folder(), tmp_path / "model")
    for name in removed:
        (folder / name).unlink()

    with pytest.raises(ModelError, match=missing) as error:
        family_of(spec := ModelSpec("onnx", str(folder)), "encoder").check(spec)

    assert "preprocessor_config.json" in error.value.advice


def images_only(root):
    colors = ["#ff0000", "#00ff00", "#0000ff"]
    documents = {f"d{i}": color for i, color in enumerate(colors)}
    queries = {f"q{i}": color for i, color in enumerate(colors)}
    return write_collection(root, documents, queries, [(f"q{i}", f"d{i}", 1) for i in range(3)])


TASKS = {
    **{task: MAKERS[task].write for task in ("linear_probe", "knn", "clustering")},
    "visual_sts": MAKERS["similarity"].write,
    "zeroshot_retrieval": images_only,
}


@pytest.fixture
def model(exported, tmp_path):
    return tower(exported[0], tmp_path / "model", ["last_hidden_state"])


@pytest.mark.parametrize("task", TASKS)
def test_tasks_with_images_run(model, tmp_path, task):
    root = tmp_path / "data"
    root.mkdir()
    TASKS[task](root)
    fast = {"fewshot_epochs": 2} if task == "linear_probe" else {}

    (result,) = evaluate(model, root, task=task, output=tmp_path / "r.json", **fast)

    assert result.metrics
    if task == "zeroshot_retrieval":
        assert result.metrics["ndcg_at_10"] == pytest.approx(1)


def test_a_task_with_texts_is_refused_before_data_are_read(model, tmp_path):
    root = tmp_path / "data"
    MAKERS["classification"].write(root)
    for shard in root.rglob("*.tar"):
        shard.write_bytes(b"not an archive")

    with pytest.raises(EyechartError, match="encodes images, not texts"):
        evaluate(model, root, output=tmp_path / "r.json")
