"""Folders of models as somebody else left them: every small file may be broken, and none fills the memory."""

import json
import re
import shutil

import pytest
from PIL import Image

from eyechart.demo import model_folder
from eyechart.errors import DataError, ModelError
from eyechart.types import ModelSpec
from support import zoo_transformers
from support.zoo import load

NO_OBJECT = {
    "nothing": "",
    "a text": "hello",
    "a list": "[]",
    "null": "null",
    "too deep": "[" * 100_000,
    "cut": '{"version": "1.0", ',
}


def without(*keys):
    def change(content):
        place = content
        for key in keys[:-1]:
            place = place[key]
        del place[keys[-1]]

    return change


def with_values(**values):
    return lambda content: content.update(values)


BROKEN_TOKENIZERS = {
    "no model": without("model"),
    "no vocabulary": without("model", "vocab"),
    "an unknown model": with_values(model={"type": "X"}),
    "an unknown step": with_values(pre_tokenizer={"type": "X"}),
    "a pattern that is none": with_values(
        normalizer={"type": "Replace", "pattern": {"Regex": "("}, "content": ""},
    ),
    "tokens that are none": with_values(added_tokens=7),
    "a panic at the first text": with_values(
        post_processor={
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "unknown", "type_id": 0}}],
            "pair": [],
            "special_tokens": {},
        }
    ),
}

BROKEN_TRANSFORMS = {
    "gigantic": {"size": {"shortest_edge": 1e9}},
    "gigantic, whole": {"size": {"shortest_edge": 10**9}},
    "gigantic box": {"size": {"height": 10**6, "width": 10**6}},
    "gigantic crop": {"crop_size": {"height": 10**6, "width": 10**6}, "do_center_crop": True},
    "beyond all numbers": {"size": {"shortest_edge": 10**400}},
    "negative": {"size": {"shortest_edge": -5}},
    "zero": {"size": {"shortest_edge": 0}},
    "not a number": {"size": {"shortest_edge": float("nan")}},
    "a text": {"size": {"shortest_edge": "224"}},
    "a list": {"size": {"shortest_edge": [224]}},
    "unknown filter": {"resample": 99},
    "scaled by a text": {"rescale_factor": "x"},
    "scaled by nothing": {"rescale_factor": float("nan")},
    "a mean of letters": {"image_mean": "x"},
    "divided by zero": {"image_std": [0, 0, 0]},
    "scaled beyond all numbers": {"rescale_factor": 10**400},
}


def edit(path, change):
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    return zoo_transformers.CASES["clip"](tmp_path_factory.mktemp("clip")).parts[0].parent


def copied(family, clip, tmp_path):
    """Copy a model that somebody may tamper with; return its folder and the file that says how images are prepared."""
    folder = shutil.copytree(model_folder() if family == "onnx" else clip, tmp_path / "model")
    return folder, folder / ("preprocessor_config.json" if family == "onnx" else "processor_config.json")


def use(family, folder):
    """Load a model and let it see and read."""
    model = load(ModelSpec(family, str(folder)))
    model.encode_images(model.prepare_image(Image.new("RGB", (64, 48)))[None])
    model.encode_texts(["a cat"])


def cases(kinds, *of_transformers):
    """All kinds for the family that reads the files itself, and some for the one that leaves it to a library."""
    return [("onnx", kind) for kind in kinds] + [("transformers", kind) for kind in of_transformers]


@pytest.mark.parametrize("family", ["onnx", "transformers"])
def test_the_models_themselves_work(family, clip, tmp_path):
    use(family, copied(family, clip, tmp_path)[0])


@pytest.mark.parametrize(("family", "kind"), cases(NO_OBJECT, "a text", "null", "too deep"))
@pytest.mark.parametrize("name", ["tokenizer.json", "transform"])
def test_a_file_that_holds_no_object_is_named(name, family, kind, clip, tmp_path):
    folder, transform = copied(family, clip, tmp_path)
    path = transform if name == "transform" else folder / name
    path.write_text(NO_OBJECT[kind])

    with pytest.raises(ModelError, match=re.escape(str(path))):
        use(family, folder)


@pytest.mark.parametrize(
    ("family", "kind"), cases(BROKEN_TOKENIZERS, "no model", "an unknown step", "tokens that are none")
)
def test_a_tokenizer_that_is_none_is_named(family, kind, clip, tmp_path):
    folder, _ = copied(family, clip, tmp_path)
    edit(folder / "tokenizer.json", BROKEN_TOKENIZERS[kind])

    with pytest.raises(ModelError, match=r"model/tokenizer\.json is not a valid tokenizer"):
        use(family, folder)


@pytest.mark.parametrize(
    ("family", "kind"), cases(BROKEN_TRANSFORMS, "gigantic", "gigantic crop", "not a number", "unknown filter")
)
def test_sizes_and_numbers_that_no_model_has_are_refused_with_the_name_of_the_file(family, kind, clip, tmp_path):
    folder, transform = copied(family, clip, tmp_path)
    edit(transform, lambda content: content.get("image_processor", content).update(BROKEN_TRANSFORMS[kind]))

    with pytest.raises(ModelError, match=rf"{re.escape(str(transform))}.*: invalid value of "):
        use(family, folder)


@pytest.mark.parametrize("value", ["x", -1, float("nan"), [77], True])
@pytest.mark.parametrize("name", ["eyechart.json", "tokenizer_config.json"])
def test_a_context_length_that_is_none_is_refused(name, value, tmp_path):
    folder = shutil.copytree(model_folder(), tmp_path / "model")
    (folder / "eyechart.json").unlink()
    (folder / name).write_text(json.dumps({"context_length": value, "model_max_length": value}))

    with pytest.raises(ModelError, match="model: invalid context length"):
        use("onnx", folder)


@pytest.mark.parametrize("family", ["onnx", "transformers"])
def test_a_strip_is_not_scaled_to_gigabytes(family, clip, tmp_path):
    """It is small, and so is the model's size; together they are gigantic."""
    folder, transform = copied(family, clip, tmp_path)
    edit(transform, lambda content: content.get("image_processor", content).update(size={"shortest_edge": 4096}))
    model = load(ModelSpec(family, str(folder)))

    with pytest.raises(DataError, match="An image of 10 x 4000 would have 6710886400"):
        model.prepare_image(Image.new("RGB", (10, 4000)))
