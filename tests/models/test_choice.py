"""Which models a command means."""

import re

import pytest

from eyechart.config import make_config
from eyechart.errors import UnknownNameError, UsageError
from eyechart.models.registry import FAMILIES
from eyechart.models.resolve import collection_names
from eyechart.plan_models import model_specs


def chosen(model_type=None, model=(), pretrained=(), entries=(), role="encoder", **settings):
    """Return family, name and pretrained of each model."""
    values = {"model_type": model_type, "model": list(model), "pretrained": list(pretrained), **settings}
    specs = model_specs(make_config({**values, "pretrained_model": list(entries)}), role)
    return [(spec.family, spec.name, spec.pretrained) for spec in specs]


@pytest.mark.parametrize("model_type", [None, "open_clip"])
def test_every_model_with_every_tag(model_type):
    assert chosen(model_type, ["ViT-B-32", "ViT-L-14"], ["a", "b"]) == [
        ("open_clip", "ViT-B-32", "a"),
        ("open_clip", "ViT-B-32", "b"),
        ("open_clip", "ViT-L-14", "a"),
        ("open_clip", "ViT-L-14", "b"),
    ]


@pytest.mark.parametrize(
    ("model_type", "model", "pretrained", "expected"),
    [
        (None, [], [], ("open_clip", "ViT-B-32-quickgelu", "laion400m_e32")),
        (None, [], ["weights.pt"], ("open_clip", "ViT-B-32-quickgelu", "weights.pt")),
        (None, ["ViT-B-32"], [], ("open_clip", "ViT-B-32", "laion400m_e32")),
        (None, ["ViT-B/32"], [], ("open_clip", "ViT-B/32", "laion400m_e32")),
        (None, ["ViT-B-32"], [""], ("open_clip", "ViT-B-32", "")),
        (None, ["hf-hub:org/name"], [], ("open_clip", "hf-hub:org/name", "")),
        (None, ["eyechart-tiny"], [], ("onnx", "eyechart-tiny", "")),
        ("open_clip", [], [], ("open_clip", "ViT-B-32-quickgelu", "laion400m_e32")),
        ("open_clip", ["ViT-B-32"], [], ("open_clip", "ViT-B-32", "laion400m_e32")),
        ("ja_clip", [], [], ("ja_clip", "ViT-B-32-quickgelu", "rinna/japanese-clip-vit-b-16")),
        ("ja_clip", [], ["rinna/x"], ("ja_clip", "ViT-B-32-quickgelu", "rinna/x")),
        ("transformers", ["openai/clip"], [], ("transformers", "openai/clip", "")),
        ("transformers", [], ["./folder"], ("transformers", "./folder", "")),
        ("onnx", [], [], ("onnx", "eyechart-tiny", "")),
    ],
)
def test_what_is_not_given_is_the_familys_own_default(model_type, model, pretrained, expected):
    assert chosen(model_type, model, pretrained) == [expected]


def test_a_folder_as_weights_alone_is_the_model(zoo):
    folder = zoo.case("clip").spec.name

    assert chosen(pretrained=[folder]) == [("transformers", folder, "")]


def test_a_family_without_a_default_needs_a_model():
    with pytest.raises(UsageError, match="--model-type transformers needs a model"):
        chosen("transformers")


def test_own_models_by_factory():
    def factories(**values):
        return [(spec.name, spec.pretrained, spec.options["factory"]) for spec in model_specs(make_config(values))]

    assert factories(model=["python:a.b:make"]) == [("python:a.b:make", "", "a.b:make")]
    assert factories(model_type="python:a.b:make", model=["x"], pretrained=["y"]) == [("x", "y", "a.b:make")]
    assert factories(model_type="python:a.b:make") == [("python:a.b:make", "", "a.b:make")]


def test_pairs_and_collections_each_model_once():
    found = chosen(entries=["ViT-B-32,openai", "openai", "hf-hub:org/name,"])

    assert found == [
        ("open_clip", "ViT-B-32", "openai"),
        ("open_clip", "ViT-B-16", "openai"),
        ("open_clip", "ViT-L-14", "openai"),
        ("open_clip", "ViT-L-14-336", "openai"),
        ("open_clip", "hf-hub:org/name", ""),
    ]


def test_an_unknown_collection_names_the_nearest():
    with pytest.raises(UsageError, match="Did you mean openclip_base"):
        chosen(entries=["openclip_bas"])


@pytest.mark.parametrize("name", collection_names())
def test_every_model_of_every_collection_exists_in_open_clip(name):
    specs = model_specs(make_config({"pretrained_model": [name]}))

    assert specs
    assert {spec.family for spec in specs} == {"open_clip"}


def test_both_names_of_the_whole_list_mean_the_same():
    import open_clip

    everything = [("open_clip", *pair) for pair in open_clip.list_pretrained()]

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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"contextlength": 20}, "Unknown option of the model type onnx: 'contextlength'.*Did you mean context_length"),
        ({"decoder": "fast"}, "Unknown option of the model type onnx: 'decoder'"),
        ({"context_length": "abc"}, "Invalid value of the option context_length: 'abc'.*a positive integer"),
        ({"context_length": 0}, "Invalid value of the option context_length: 0"),
        ({"context_length": True}, "Invalid value of the option context_length: True"),
        ({"tokenizer": 3}, "Invalid value of the option tokenizer: 3.*a string"),
        ({"concurrency": "abc"}, "--concurrency: Input should be a valid integer"),
        ({"timeout": 0}, "--timeout: Input should be greater than 0"),
        ({"batch": 0}, "--batch-size: Input should be greater than or equal to 1"),
    ],
)
def test_an_option_that_would_have_no_effect_or_no_meaning_is_refused(options, message):
    with pytest.raises(UsageError) as error:
        model_specs(make_config({"model_type": "onnx", "model_options": options}))

    assert re.search(message, str(error.value), re.DOTALL)


def test_every_family_of_ours_says_what_its_options_are():
    for role, registry in FAMILIES.items():
        for name in registry.built_in:
            lists = hasattr(registry.load(name), "own_options")
            assert lists or name == "python" or role == "reranker"  # code may take anything; rerankers have no flag


def test_how_a_server_is_reached_is_no_option_of_the_model():
    options = {"concurrency": 3, "timeout": 9, "tries": 2, "batch": 7, "api_key_variable": "KEY", "image_form": "jina"}
    config = make_config({"model": ["m"], "pretrained": ["http://localhost:1/v1"], "model_options": options})

    (spec,) = model_specs(config)

    assert (spec.family, spec.options) == ("api", {"image_form": "jina"})
    access = spec.access
    assert (access.concurrency, access.timeout, access.tries, access.batch_size) == (3, 9.0, 2, 7)
    assert access.key_variable == "KEY"


def test_an_address_makes_a_name_that_nothing_else_knows_a_model_of_that_server():
    questions = {"api_base": "http://localhost:1/v1"}

    for role in ("encoder", "generator"):
        assert chosen(model=["gpt-x"], role=role, questions=questions) == [("api", "gpt-x", "")]
        assert chosen(model=["Qwen/Qwen-VL"], role=role, questions=questions) == [("api", "Qwen/Qwen-VL", "")]


def test_an_unknown_family_names_the_nearest():
    with pytest.raises(UnknownNameError, match="Did you mean transformers"):
        chosen("transformer", ["x"])


def test_a_spec_with_its_access_travels_to_another_process():
    import pickle

    from eyechart.api import Budget
    from eyechart.models.access import Access

    copy = pickle.loads(pickle.dumps(Access(concurrency=3, tries=2)))  # noqa: S301 - our own
    assert (copy.concurrency, copy.tries) == (3, 2)
    with pytest.raises(TypeError, match="within one process"):
        pickle.dumps(Access(budget=Budget(max_requests=3)))
