"""`eyechart eval --config eval.yaml`: flags as keys of a file, the command line wins."""

import json

import pytest

from eyechart.cli import main, make_parser
from eyechart.cli.flags.eval_flags import settings_of
from eyechart.config import make_config
from eyechart.errors import UsageError

YAML = """
dataset: [demo/garments, demo/scenes]
model: eyechart-tiny          # one value where several may be
skip-existing: true
batch_size: 7
recall_k: [1, 5]
language: [en, "no"]
fewshot_lr: 1e-3
normalize: no
prompt_sensitivity: no
append: false
xlsx: false
limit: null
quiet: false
api_base: http://127.0.0.1:1/v1
questions: {concurrency: 3, judge: [a, b]}
model_options: {max_edge: 448, prompts: own}
task_options: {knn_k: 5, shots: [1, 2]}
caption_cleaning: {flickr30k: internvl}
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def settings(*words):
    return settings_of(make_parser("eyechart", "eval").parse_args(["eval", *words]))


def test_keys_are_flags_or_settings(place):
    (place / "e.yaml").write_text(YAML)

    found = settings("--config", "e.yaml")
    config = make_config(found)

    assert config.dataset == ["demo/garments", "demo/scenes"]
    assert config.model == ["eyechart-tiny"]
    assert config.skip_existing
    assert (config.batch_size, config.recall_k, config.language) == (7, [1, 5], ["en", "no"])
    assert (config.append, config.limit) == (False, None)
    assert (config.questions.xlsx, config.questions.concurrency, config.questions.judge) == (False, 3, ["a", "b"])
    assert config.questions.api_base == "http://127.0.0.1:1/v1"
    assert config.model_options == {"max_edge": 448, "prompts": "own"}
    assert config.caption_cleaning == {"flickr30k": "internvl"}
    options = config.task_options
    assert (options["fewshot_lr"], options["normalize"], options["prompt_sensitivity"]) == (0.001, False, "no")
    assert (options["knn_k"], options["shots"]) == (5, [1, 2])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("e.json", '{"dataset": "cifar10", "limit": 5}'),
        ("e.toml", 'dataset = "cifar10"\nlimit = 5\n'),
        ("e.yml", "--dataset: cifar10\n--limit: 5\n"),
    ],
)
def test_any_of_three_forms(place, name, text):
    (place / name).write_text(text)

    found = settings("--config", name)

    assert (found["dataset"], found["limit"]) == (["cifar10"], 5)


@pytest.mark.parametrize(
    ("file", "words", "expected"),
    [
        ("limit: 5", "--limit 6 --config e.yaml", {"limit": 6}),
        ("limit: 5", "--config e.yaml --limit 6", {"limit": 6}),
        ("dataset: [a, b]\nmodel: m", "--config e.yaml --dataset c", {"dataset": ["c"], "model": ["m"]}),
        (
            "dataset: [a, b]\nmodel: m",
            "cifar10 ViT-B-32 --config e.yaml",
            {"dataset": ["cifar10"], "model": ["ViT-B-32"]},
        ),
        ("dataset: a", "ViT-B-32 --config e.yaml", {"dataset": ["a"], "model": ["ViT-B-32"]}),
        ("pretrained_model: openai", "--model m --config e.yaml", {"model": ["m"], "pretrained_model": None}),
        ("amp: true", "--no_amp --config e.yaml", {"precision": "fp32"}),
        ("amp: true", "--precision bf16 --config e.yaml", {"precision": "bf16"}),
        ("precision: bf16", "--amp --config e.yaml", {"precision": "amp"}),
        ("append: true", "--no-append --config e.yaml", {"append": False}),
        ("recall_k: [1]", "--config e.yaml", {"recall_k": [1]}),
    ],
)
def test_the_command_line_wins(place, file, words, expected):
    (place / "e.yaml").write_text(file)

    found = settings(*words.split())

    assert {name: found.get(name) for name in expected} == expected


def test_options_of_the_command_line_are_added_to_those_of_the_file(place):
    (place / "e.yaml").write_text("model_options: {a: 1, b: 2}\n")

    assert settings("--config", "e.yaml", "--model-option", "b=3")["model_options"] == {"a": 1, "b": 3}


def test_settings_that_cannot_stand_together_are_replaced_together(place):
    (place / "e.yaml").write_text("val_split: [val]\n")

    options = settings("--config", "e.yaml", "--val_proportion", "0.2")["task_options"]

    assert options == {"val_proportion": [0.2]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("datset: x", r"Unknown setting in e.yaml: 'datset'.\nDid you mean dataset "),
        ("questions: {judg: x}", r"'judg'.\nDid you mean judge"),
        ("limit: [1, 2]", "limit takes one value"),
        ("skip_existing: 3", "skip_existing takes true or false"),
        ('quiet: "no"', "quiet takes true or false"),
        ('amp: "false"', "amp takes true or false"),
        ("dataset-root: a\ndataset_root: b", "e.yaml sets 'dataset_root' twice"),
        ("questions: {judge: a}\njudge: b", "e.yaml sets 'judge' twice"),
        ("language: no", r"language cannot be false.\nQuote words"),
        ("language: [no]", "language cannot be false"),
        ("config: other.yaml", "Unknown setting in e.yaml: 'config'"),
        ("- a\n- b", "contains a list"),
        ("a: [", "not valid YAML"),
    ],
)
def test_what_is_wrong_is_told_of_the_file(place, text, message):
    (place / "e.yaml").write_text(text)

    with pytest.raises(UsageError, match=message):
        settings("--config", "e.yaml")


def test_a_value_of_another_kind_is_told_of_the_file(place, capsys):
    (place / "e.yaml").write_text("limit: many")

    with pytest.raises(SystemExit, match="2"):
        main(["eval", "--config", "e.yaml"])

    assert "eyechart eval: e.yaml: argument --limit: invalid int value: 'many'" in capsys.readouterr().err


def test_there_must_be_a_file(place, capsys):
    assert main(["eval", "--config", "nowhere.yaml"]) == 2
    assert "nowhere.yaml" in capsys.readouterr().err


def test_a_file_makes_a_run(place):
    (place / "e.toml").write_text('dataset = "demo/garments"\nmodel = "eyechart-tiny"\noutput = "r.json"\nlimit = 20\n')

    assert main(["eval", "--config", "e.toml", "--quiet"]) == 0

    assert json.loads((place / "r.json").read_text())["counts"]["scored"] == 20
