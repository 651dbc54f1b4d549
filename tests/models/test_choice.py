"""Which models a command means."""

import pytest

from eyechart.config import make_config
from eyechart.errors import UnknownNameError, UsageError
from eyechart.models.resolve import Choice, choose_models, collection_names
from eyechart.plan_models import model_specs


def chosen(model_type="open_clip", model=(), pretrained=(), entries=()):
    return choose_models(model_type, model, pretrained, entries)


def test_every_model_with_every_tag():
    assert chosen(model=["ViT-B-32", "ViT-L-14"], pretrained=["a", "b"]) == [
        Choice("open_clip", "ViT-B-32", "a"),
        Choice("open_clip", "ViT-B-32", "b"),
        Choice("open_clip", "ViT-L-14", "a"),
        Choice("open_clip", "ViT-L-14", "b"),
    ]


@pytest.mark.parametrize(
    ("model_type", "model", "pretrained", "expected"),
    [
        ("open_clip", [], [], ("ViT-B-32-quickgelu", "laion400m_e32")),
        ("open_clip", ["ViT-B-32"], [], ("ViT-B-32", "laion400m_e32")),
        ("open_clip", ["ViT-B-32"], [""], ("ViT-B-32", "")),
        ("ja_clip", [], ["rinna/japanese-cloob-vit-b-16"], ("ViT-B-32-quickgelu", "rinna/japanese-cloob-vit-b-16")),
        ("transformers", ["openai/clip-vit-base-patch32"], [], ("openai/clip-vit-base-patch32", "")),
        ("transformers", [], ["./folder"], ("./folder", "")),
        ("onnx", [], [], ("eyechart-tiny", "")),
    ],
)
def test_what_is_not_given_is_the_familys_own_default(model_type, model, pretrained, expected):
    assert chosen(model_type, model, pretrained) == [Choice(model_type, *expected)]


def test_a_family_without_a_default_needs_a_model():
    with pytest.raises(UsageError, match="--model_type transformers needs a model"):
        chosen("transformers")


def test_own_models_by_factory():
    assert chosen(model=["python:a.b:make"]) == [Choice("python", "python:a.b:make", "", factory="a.b:make")]
    assert chosen("python:a.b:make", model=["x"], pretrained=["y"]) == [Choice("python", "x", "y", factory="a.b:make")]
    assert chosen("python:a.b:make") == [Choice("python", "python:a.b:make", "", factory="a.b:make")]


def test_pairs_and_collections_each_model_once():
    found = chosen(entries=["ViT-B-32,openai", "openai", "hf-hub:org/name,"])

    assert [(choice.name, choice.pretrained) for choice in found] == [
        ("ViT-B-32", "openai"),
        ("ViT-B-16", "openai"),
        ("ViT-L-14", "openai"),
        ("ViT-L-14-336", "openai"),
        ("hf-hub:org/name", ""),
    ]


def test_an_unknown_collection_names_the_nearest():
    with pytest.raises(UsageError, match="Did you mean openclip_base"):
        chosen(entries=["openclip_bas"])


@pytest.mark.parametrize("name", collection_names())
def test_every_model_of_every_collection_exists_in_open_clip(name):
    specs = model_specs(make_config({"pretrained_model": [name], "model_type": "open_clip"}))

    assert specs
    assert {spec.family for spec in specs} == {"open_clip"}


def test_both_names_of_the_whole_list_mean_the_same():
    import open_clip

    everything = [Choice("open_clip", *pair) for pair in open_clip.list_pretrained()]

    assert chosen(entries=["openclip_all"]) == chosen(entries=["openclip_full"]) == everything


def test_options_reach_the_family():
    config = make_config(
        {
            "model_type": "onnx",
            "revision": "abc",
            "hub": "modelscope",
            "trust_remote_code": True,
            "compile": True,
            "model_cache_dir": "cache",
            "model_options": {"context_length": 20},
        }
    )

    (spec,) = model_specs(config)

    assert spec.options == {
        "revision": "abc",
        "hub": "modelscope",
        "trust_remote_code": True,
        "compile": True,
        "cache_dir": "cache",
        "context_length": 20,
    }


def test_an_unknown_family_names_the_nearest():
    with pytest.raises(UnknownNameError, match="Did you mean transformers"):
        model_specs(make_config({"model_type": "transformer", "model": ["x"]}))
