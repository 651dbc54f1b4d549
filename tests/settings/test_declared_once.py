"""A setting is declared in one place; the parser, Python and EvalScope's names follow from it."""

import argparse
import inspect
import subprocess
import sys
import typing

import pytest

from eyechart.cli import main, make_parser
from eyechart.cli.flags.eval_flags import eval_settings
from eyechart.compat.evalscope import schema
from eyechart.config import make_config
from eyechart.errors import UsageError
from eyechart.settings import evaluation, generation, tasks
from eyechart.settings.declare import Settings, internal, option, setting

LIGHT = """
import sys
from eyechart.cli import make_parser
make_parser("eyechart", "eval").format_help()
print([name for name in ("numpy", "pydantic", "PIL", "eyechart.tasks", "eyechart.models", "eyechart.datasets")
       if name in sys.modules])
"""


def flags():
    (commands,) = (a.choices for a in make_parser("eyechart", "eval")._actions if isinstance(a.choices, dict))
    return [action for action in commands["eval"]._actions if action.option_strings]


def test_no_name_is_declared_by_two_classes():
    owners = {
        one
        for module in (evaluation, generation, tasks)
        for _, one in inspect.getmembers(module, inspect.isclass)
        if issubclass(one, Settings)
    }
    declared = [name for owner in owners for name in owner.__annotations__ if name in owner.fields()]

    twice = {name for name in declared if declared.count(name) > 1}
    assert twice == {"main_metric"}  # no user sets it
    assert {name for name, _, _ in eval_settings()} <= set(declared)


def test_every_flag_is_absent_unless_it_is_given():
    assert all(action.default is argparse.SUPPRESS for action in flags())
    assert vars(make_parser("eyechart", "eval").parse_args(["eval", "--limit", "3"])).keys() - {"targets"} == {
        "program",
        "command",
        "limit",
    }


def test_the_parser_needs_nothing_heavy():
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"


@pytest.mark.parametrize("words", [["--api-key", "sk-secret"], ["--api_key=sk-secret"], ["--api-k", "sk-secret"],
                                   ["--judge-key", "sk-secret"], ["--api-key-var", "sk-secret"]])  # fmt: skip
def test_a_key_on_the_command_line_is_refused_and_not_repeated(words, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["eval", "demo/garments", *words])

    said = "".join(capsys.readouterr())
    assert "key-variable" in said
    assert "sk-secret" not in said


def test_the_variable_of_a_key_is_a_flag(capsys):
    args = make_parser("eyechart", "eval").parse_args(["eval", "--api_key_variable", "MY_KEY"])

    assert args.api_key_variable == "MY_KEY"


@pytest.mark.parametrize(
    "model", [schema.Endpoint, schema.ModelEntry, schema.VisionModel, schema.TextModel, schema.Requests,
              schema.ClipEval, schema.MtebEval, schema.CustomTask],
)  # fmt: skip
def test_evalscope_s_fields_take_what_our_settings_take(model):
    types = {name: kind for owner in schema._OWNERS for name, kind in owner.types().items()}
    for name, field in model.model_fields.items():
        if name in schema.DECLARED and field.description == schema.DECLARED[name].help:
            theirs, own = _values(field.annotation), _values(types[name])
            assert theirs <= own | {type(None)}, name


def _values(kind):
    """Return the types and literal values that a type is made of; a list counts as what it holds."""
    if typing.get_origin(kind) is None:
        return {kind}
    if typing.get_origin(kind) is typing.Literal:
        return set(typing.get_args(kind))
    return set().union(*map(_values, typing.get_args(kind)))


class Example(Settings):
    group = "example"

    size: int = setting(3, "how many", ge=1)
    names: list[str] = setting([], "which")
    share: float | None = option(None, le=1)
    note: str = internal("")
    plain: bool = False

    def check(self):
        if self.size == 7:
            raise UsageError("--size 7 is unlucky.")


class TestSettings:
    def test_values_are_checked_and_unchangeable(self):
        found = Example(size="4", names="one")

        assert (found.size, found.names, found.share, found.plain) == (4, ["one"], None, False)
        assert found.given == {"size", "names"}
        with pytest.raises(AttributeError):
            found.size = 5
        assert found.replaced(size=5).size == 5
        assert found.size == 4

    @pytest.mark.parametrize(
        ("values", "message"),
        [
            ({"size": 0}, "--size: Input should be greater than or equal to 1"),
            ({"sise": 3}, r"sise: unknown setting; did you mean size\?"),
            ({"share": 2}, "share: Input should be less"),
            ({"size": 7}, "unlucky"),
        ],
    )
    def test_what_is_wrong_names_the_setting(self, values, message):
        with pytest.raises(UsageError, match=message):
            Example(**values)

    def test_defaults_are_not_shared(self):
        Example().names.append("x")

        assert Example().names == []

    def test_two_that_are_equal(self):
        assert Example(size=3) == Example()
        assert Example(size=4) != Example()

    def test_inner_settings_keep_what_was_given(self):
        config = make_config({"questions": generation.QuestionSettings(judge="a"), "limit": 3})

        assert config.questions.judge == ["a"]
        assert config.questions.given == {"judge"}
        with pytest.raises(UsageError, match=r"judg: unknown setting; did you mean judge"):
            make_config({"questions": {"judg": "a"}})
