"""The arguments of `evaluate`: every setting there is, with its type, and a single value where a list is meant."""

import inspect
import subprocess
import sys
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

import eyechart
from eyechart.config import Config, QuestionSettings, make_config
from eyechart.errors import EyechartError
from eyechart.python_api.arguments import _dataset_name
from eyechart.python_api.evaluate import evaluate
from eyechart.settings.tasks import task_flags

HINTS = typing.get_type_hints(evaluate)
OBJECTS_ONLY = {
    "model", "dataset", "preprocess", "tokenizer", "processor",
    "classnames", "templates", "progress",
}  # fmt: skip
SCRIPT = Path(__file__).parents[2] / "scripts" / "evaluate_signature.py"
GARMENTS = {"model": "eyechart-tiny", "dataset": "demo/garments", "limit": 20}


def as_argument(annotation):
    """Return the parts of the type that an argument has for a setting: None, and one for a list."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is list:
        (item,) = arguments
        return {item, Sequence[item]}
    if origin is dict:
        return {Mapping[arguments]}
    if origin in (types.UnionType, typing.Union):
        return {part for argument in arguments for part in as_argument(argument)} - {type(None)}
    if annotation is Path:
        return {str, Path}
    if annotation is QuestionSettings:
        return {QuestionSettings, Mapping[str, typing.Any]}
    return {annotation}


@pytest.mark.parametrize("settings", [Config, QuestionSettings])
def test_every_setting_is_an_argument_of_its_type(settings):
    for name, kind in settings.types().items():
        if name in ("model", "dataset"):
            continue
        found = set(typing.get_args(HINTS[name])) - {type(None)}
        wanted = as_argument(kind)
        paths = {Path} if Path in found else set()
        lists = {Sequence[str | Path]} & found
        assert found - paths - lists == wanted - paths - ({Sequence[str]} if lists else set()), name


def test_there_is_no_other_argument():
    named = {*inspect.signature(evaluate).parameters} - {"unknown"}

    assert named == {*Config.fields(), *QuestionSettings.fields(), *task_flags(), *OBJECTS_ONLY, "like"}


def test_the_signature_is_current():
    """Notebooks show types and defaults: they are written by a script from the declared settings."""
    done = subprocess.run([sys.executable, SCRIPT, "--check"], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


def test_the_defaults_are_described():
    described = inspect.getdoc(evaluate)

    assert "batch_size: images or texts per forward pass (default: 64" in described
    assert "fewshot_lr: learning rate (default: 0.1)." in described


def test_none_of_them_is_positional_but_the_first_two():
    kinds = {name: one.kind for name, one in inspect.signature(evaluate).parameters.items()}

    assert [name for name, kind in kinds.items() if kind is inspect.Parameter.POSITIONAL_OR_KEYWORD] == [
        "model",
        "dataset",
    ]
    assert all(one.default is None for name, one in inspect.signature(evaluate).parameters.items() if name != "unknown")


@pytest.mark.parametrize("settings", [Config, QuestionSettings])
def test_one_value_stands_for_a_list_of_one(settings):
    for name, kind in settings.types().items():
        if typing.get_origin(kind) is list:
            (item,) = typing.get_args(kind)
            value = typing.get_args(item)[0] if typing.get_origin(item) is typing.Literal else item(7)
            assert getattr(settings(**{name: value}), name) == [value], name


def test_arguments_arrive_in_the_settings(tmp_path):
    """Single values, paths, settings of a task: all of them are seen in the result."""
    (result,) = evaluate(**GARMENTS, output=tmp_path / "r.json", metrics="full", prompt_sensitivity="no", language="en")

    assert result.path == tmp_path / "r.json"
    assert result.job["settings"]["prompt_sensitivity"] == "no"
    assert "f1_macro" in result.metrics


def test_calls_of_before_are_valid(tmp_path):
    lists = {"dataset": ["demo/garments"], "model": ["eyechart-tiny"], "task": ["zeroshot_classification"]}
    (old,) = eyechart.evaluate(**lists, limit=20, output=str(tmp_path / "a.json"), task_options={})
    (new,) = eyechart.evaluate("eyechart-tiny", "demo/garments", limit=20, output=tmp_path / "b.json")

    assert old.metrics == new.metrics


def test_a_word_that_is_no_argument_names_the_nearest_one():
    with pytest.raises(EyechartError) as caught:
        evaluate("eyechart-tiny", "demo/garments", bacth_size=3)
    assert "batch_size" in f"{caught.value.message} {caught.value.advice}"


def test_questions_may_be_given_apart_or_together():
    from eyechart.python_api.arguments import collect

    for questions in ({"judge": "a"}, QuestionSettings(judge=["a"])):
        settings = collect({"questions": questions, "temperature": 0.5, "judge": None}, {})
        config = make_config(settings)
        assert (config.questions.judge, config.questions.temperature) == (["a"], 0.5)


class TestProgress:
    def test_nothing_is_written_where_nobody_looks(self, tmp_path, capfd):
        evaluate(**GARMENTS, output=tmp_path / "r.json")
        assert capfd.readouterr() == ("", "")

    def test_bars_if_asked_for(self, tmp_path, capfd):
        evaluate(**GARMENTS, output=tmp_path / "r.json", progress=True)
        assert "images of demo/garments" in capfd.readouterr().err
        evaluate(**GARMENTS, output=tmp_path / "r.json", progress=False)
        assert capfd.readouterr().err == ""

    def test_an_object_to_report_to(self, tmp_path):
        from eyechart.io.progress import NoProgress

        class Told(NoProgress):
            steps: typing.ClassVar[list] = []

            def step(self, name, total):
                self.steps.append(name)
                return super().step(name, total)

        evaluate(**GARMENTS, output=tmp_path / "r.json", progress=Told())
        assert "images of demo/garments" in Told.steps


def test_only_public_names_are_offered():
    names = {name for name in dir(eyechart) if not name.startswith("__")}

    assert names == set(eyechart.__all__)


class TestNamesOfUnnamedDatasets:
    datasets = pytest.importorskip("datasets")

    def test_a_saved_dataset_has_the_name_of_its_folder(self, tmp_path):
        rows = self.datasets.Dataset.from_dict({"label": [0, 1]})
        rows.save_to_disk(tmp_path / "flowers")
        self.datasets.DatasetDict(test=rows).save_to_disk(tmp_path / "birds")

        assert _dataset_name(self.datasets.load_from_disk(tmp_path / "flowers")) == "flowers"
        assert _dataset_name(self.datasets.load_from_disk(tmp_path / "birds")) == "birds"

    def test_without_any_name_it_holds_images(self):
        rows = self.datasets.Dataset.from_dict({"label": [0, 1]})

        assert {_dataset_name(data) for data in (rows, rows.to_iterable_dataset(), [{"label": 0}])} == {"images"}
