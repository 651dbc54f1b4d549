"""`eyechart eval photos/ ViT-B-32:openai`: what is data and what is a model is found out."""

import json

import pytest

from eyechart.cli import main, make_parser
from eyechart.cli.flags.eval_flags import settings_of
from eyechart.config import make_config
from eyechart.errors import EyechartError, UsageError
from eyechart.models.resolve import resolve_model
from eyechart.plan import plan_jobs
from eyechart.plan_models import model_specs
from support.data import png


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Photos of one's own, the folder of a model, and a list of names."""
    monkeypatch.chdir(tmp_path)
    for name, color in (("cat", 1), ("dog", 2)):
        (tmp_path / "photos" / name).mkdir(parents=True)
        (tmp_path / "photos" / name / "1.png").write_bytes(png(color))
    (tmp_path / "captions.csv").write_text("filepath,title\nphotos/cat/1.png,a cat\n")
    (tmp_path / "my_clip").mkdir()
    (tmp_path / "my_clip" / "open_clip_config.json").write_text("{}")
    (tmp_path / "names.txt").write_text("cifar10\n")
    return tmp_path


def settings(*words):
    return settings_of(make_parser("eyechart", "eval").parse_args(["eval", *words]))


def meant(*words):
    found = settings(*words)
    return found["dataset"], found.get("model", [])


@pytest.mark.parametrize(
    ("words", "datasets", "models"),
    [
        ("photos/ ViT-B-32:openai", ["photos"], ["ViT-B-32:openai"]),
        ("ViT-B-32:openai photos", ["photos"], ["ViT-B-32:openai"]),
        ("--quiet photos ViT-B-32", ["photos"], ["ViT-B-32"]),
        ("eyechart-tiny-int8 photos", ["photos"], ["eyechart-tiny-int8"]),
        ("photos --limit 3 ViT-B-32 --quiet eyechart-tiny", ["photos"], ["ViT-B-32", "eyechart-tiny"]),
        ("captions.csv cifar10 vtab+ my_clip", ["captions.csv", "cifar10", "vtab+"], ["my_clip"]),
        ("wds/pets demo/scenes ViT-B/32:openai", ["wds/pets", "demo/scenes"], ["ViT-B/32:openai"]),
        ("MMBench_DEV_EN Qwen/Qwen2.5-VL-3B-Instruct", ["MMBench_DEV_EN"], ["Qwen/Qwen2.5-VL-3B-Instruct"]),
        ("photos hf-hub:timm/x internvl_c_classification", ["photos"], ["hf-hub:timm/x", "internvl_c_classification"]),
        ("photos ViT-B-32:./weights.pt", ["photos"], ["ViT-B-32:./weights.pt"]),
        ("photos --model ViT-L-14", ["photos"], ["ViT-L-14"]),
        ("ViT-L-14 --dataset photos", ["photos"], ["ViT-L-14"]),
        ("photos eyechart-tiny-int8", ["photos"], ["eyechart-tiny-int8"]),
        ("ViT-B-32 --language en de -- photos", ["photos"], ["ViT-B-32"]),
        ("--language en photos --dataset cifar10 --model ViT-B-32", ["cifar10"], ["ViT-B-32"]),
        ("photos", ["photos"], []),
    ],
)
def test_words_are_sorted_wherever_they_stand(place, words, datasets, models):
    assert meant(*words.split()) == (datasets, models)


@pytest.mark.parametrize(
    ("words", "model"),
    [
        ("photos my-model --api-base http://host/v1", "my-model"),
        ("my-model photos --pretrained http://host/v1", "my-model"),
        ("my-model --dataset photos --api-base http://host/v1", "my-model"),
        ("photos gpt-4o-mini", "gpt-4o-mini"),
        ("photos llava --api-base http://host/v1", "llava"),  # although LLaVABench begins with it
        ("captions.csv photos Qwen2.5-VL-7B-Instruct", "Qwen2.5-VL-7B-Instruct"),
    ],
)
def test_one_unknown_word_next_to_a_dataset_is_a_model(place, words, model):
    (place / f"{model}.log").touch()  # of an earlier run
    (place / f"{model}-out").mkdir()
    found = settings(*words.split())

    assert found["model"] == [model]
    assert "photos" in found["dataset"]


def test_a_model_of_a_config_files_dataset_may_be_unknown_too(place):
    (place / "eval.yaml").write_text("dataset: photos\n")

    assert settings("my-model", "--config", "eval.yaml")["model"] == ["my-model"]


def test_a_collection_of_models_is_its_models(place):
    assert meant("photos", "openai")[1][:2] == ["ViT-B-32:openai", "ViT-B-16:openai"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("phots ViT-B-32", r"Unknown dataset, model or path: 'phots'.*\n.*photos.*--dataset phots or --model phots"),
        ("./phots ViT-B-32", r"no such folder or file: ./phots\nDid you mean photos"),
        ("photos/cta ViT-B-32", r"no such folder or file: photos/cta\nDid you mean photos/cat\?"),
        ("names.txt ViT-B-32", r"could be a dataset or a model.*\n.*--pretrained-model names.txt"),
        ("python:mine:thing photos", r"could be a dataset or a model.*\n.*--model python:mine:thing"),
        ("photos ViT-B-32 --dataset cifar10", r"photos and --dataset both specify a dataset"),
        ("photos ViT-B-32 --model ViT-L-14", r"ViT-B-32 and --model both specify a model"),
        ("photos ViT-B-32 --pretrained-model openai", r"ViT-B-32 and --pretrained-model both specify a model"),
        ("ViT-B-32:openai", r"No dataset given, only models: ViT-B-32:openai"),
        ("phots/cat ViT-B-32", r"No dataset given: there is no folder or file phots/cat, .* model on a hub"),
        ("nothere/x eyechart-tiny", r"No dataset given: there is no folder or file nothere/x, .*\n.*existing folder"),
        (
            "photos --language en ViT-B-32",
            r"--language takes several values and consumed ViT-B-32.*\n.*--model ViT-B-32",
        ),
        (
            "--task zeroshot_classification photos ViT-B-32",
            r"--task takes .* consumed photos, which is a known dataset",
        ),
        ("photos ViT-B-32,openai", r"Did you mean ViT-B-32:openai\?"),
        ("photos phtos --api-base http://host/v1", r"Unknown dataset, model or path: 'phtos'.*\nDid you mean photos"),
        ("photos cifra10", r"'cifra10'.*\nDid you mean cifar10"),
        ("photos food --api-base http://host/v1", r"'food'.*\nDid you mean food101"),
        ("photos AI2D --api-base http://host/v1", r"'AI2D'.*\nDid you mean .*AI2D_TEST"),
        ("photos resisc --api-base http://host/v1", r"'resisc'.*\nDid you mean .*resisc45"),
        ("photos captions --api-base http://host/v1", r"'captions'.*\nDid you mean captions.csv"),
        ("photos one-model two-model", r"Unknown dataset, model or path: 'one-model'"),
        ("photos my-model --model eyechart-tiny", r"Unknown dataset, model or path: 'my-model'"),
        ("my-model", r"Unknown dataset, model or path: 'my-model'"),
        ("demo/garmnts ViT-B-32", r"Did you mean demo/garments"),
    ],
)
def test_what_is_unclear_is_refused_with_the_flags_that_say_it(place, words, message):
    with pytest.raises(UsageError) as caught:
        meant(*words.split())

    assert caught.match(message) or pytest.fail(str(caught.value))


@pytest.mark.parametrize("name", ["ViT-B-32", "eyechart-tiny"])
def test_a_folder_and_an_architecture_of_one_name_are_told_apart_by_flags(place, name):
    (place / name).mkdir()

    with pytest.raises(UsageError, match="could be a dataset or a model"):
        meant(name)
    assert meant("--dataset", name, "--model", name) == ([name], [name])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("./nosuch", "There is no such folder or file: ./nosuch\nCheck the path."),
        ("~/nosuch", "There is no such folder or file: ~/nosuch\nCheck the path."),
        ("nosuch/", "There is no such folder or file: nosuch/\nCheck the path."),
        ("data/nosuch", "There is no such folder or file: data/nosuch\nCheck the path."),
        ("photo/cat", "There is no such folder or file: photo/cat\nCheck the path."),
        ("./captons.csv", "There is no such folder or file: ./captons.csv\nDid you mean captions.csv?"),
        ("vtab/cifr10", "Unknown dataset: 'vtab/cifr10'.\nDid you mean vtab/cifar10"),
        ("sheet.xlsx", "sheet.xlsx is not a dataset.\nSave the sheet as CSV"),
        ("photos/cat/1.png", "photos/cat/1.png is not a dataset.\nPass the folder of the images"),
    ],
)
def test_what_is_no_dataset_is_told_with_what_to_do(place, monkeypatch, name, message):
    monkeypatch.setenv("HOME", str(place))
    (place / "sheet.xlsx").write_bytes(b"PK\xff")
    config = make_config({"dataset": [name], "model": ["eyechart-tiny"]})

    with pytest.raises(EyechartError) as caught:
        plan_jobs(config, str)

    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("words", [["", "eyechart-tiny"], ["--dataset", "", "--model", "eyechart-tiny"]])
def test_an_empty_word_is_not_the_working_folder(place, monkeypatch, capsys, words):
    monkeypatch.chdir(place / "photos")

    assert main(["eval", *words]) == 2

    assert "dataset name is empty" in capsys.readouterr().err


def test_two_words_make_a_run(place):
    assert main(["eval", "photos/", "eyechart-tiny", "--quiet", "--output", "r.json"]) == 0

    result = json.loads((place / "r.json").read_text())
    assert (result["dataset"], result["model"], result["task"]) == (
        "photos",
        "eyechart-tiny",
        "zeroshot_classification",
    )


# ------------------------------------------------------------------------------------------- architecture:weights


def specs(**settings):
    return [(spec.family, spec.name, spec.pretrained) for spec in model_specs(make_config(settings), "encoder", str)]


@pytest.mark.parametrize(
    "settings",
    [
        {"model": ["ViT-B-32:openai"]},
        {"model": ["ViT-B-32:openai"], "model_type": "open_clip"},
        {"model": ["ViT-B-32"], "pretrained": ["openai"]},
        {"pretrained_model": ["ViT-B-32:openai"]},
        {"pretrained_model": ["ViT-B-32,openai"]},
    ],
)
def test_a_name_with_weights_is_the_same_model_everywhere(settings):
    assert specs(**settings) == [("open_clip", "ViT-B-32", "openai")]


def test_the_architecture_may_be_a_config_file(place):
    (place / "tiny.json").write_text("{}")

    assert specs(model=["tiny.json:epoch_1.pt"]) == [("open_clip", "tiny.json", "epoch_1.pt")]
    assert meant("photos", "tiny.json:epoch_1.pt") == (["photos"], ["tiny.json:epoch_1.pt"])


def test_weights_may_be_a_file_and_the_name_as_openai_writes_it():
    assert specs(model=["ViT-B/32:C:\\weights.pt"]) == [("open_clip", "ViT-B/32", "C:\\weights.pt")]


@pytest.mark.parametrize(
    ("name", "family", "address"),
    [
        ("python:mine:make", None, ""),
        ("hf-hub:org/name", "open_clip", ""),
        ("local-dir:folder", "open_clip", ""),
        ("llava:7b", "api", ""),
        ("ViT-B-32:openai", None, "http://127.0.0.1:1/v1"),  # whatever a server calls its models
        ("C:\\models\\clip", "open_clip", ""),
        ("http://host/model", "open_clip", ""),
    ],
)
def test_other_names_with_colons_stay_whole(name, family, address):
    found = resolve_model(name, family=family, address=address)

    assert (found.name, found.pretrained) == (name, "")


def test_weights_are_given_once():
    with pytest.raises(UsageError, match="ViT-B-32:openai and --pretrained laion400m_e32 both select weights"):
        specs(model=["ViT-B-32:openai"], pretrained=["laion400m_e32"])


def test_an_embedded_model_has_no_weights_to_choose():
    with pytest.raises(UsageError, match="eyechart-tiny has no selectable weights"):
        resolve_model("eyechart-tiny:openai")


def test_a_wrong_architecture_has_near_names():
    with pytest.raises(EyechartError, match=r"'ViT-B-23'[^?]*ViT-B-32"):
        specs(model=["ViT-B-23:openai"])
