"""The parser of every command: spellings, near names, short errors, help that fits."""

import argparse
import re

import pytest

from eyechart.cli import COMMANDS, main, make_parser
from eyechart.cli.flags.parser import table


def parsers(command):
    """Yield the parser of a command, and those of its tools."""
    (choices,) = (a.choices for a in make_parser("eyechart", command)._actions if isinstance(a.choices, dict))
    waiting = [choices[command]]
    while waiting:
        parser = waiting.pop()
        inner = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
        waiting += [one for action in inner for one in action.choices.values()]
        yield parser


def all_flags():
    for command in COMMANDS:
        for parser in parsers(command):
            yield from ((parser, option) for option in parser._option_string_actions if option.startswith("--"))


def said(capsys, *words):
    with pytest.raises(SystemExit, match="2"):
        main(list(words))
    return capsys.readouterr().err


OTHER_TOOLS = [(tool, flag, here) for tool, flags in table("other_tools").items() for flag, here in flags.items()]


@pytest.mark.parametrize(("tool", "flag", "here"), OTHER_TOOLS, ids=lambda word: word.partition(" ")[0])
def test_a_flag_of_another_tool_is_answered_with_an_existing_flag(capsys, tool, flag, here):
    ours = {option for parser in parsers("eval") for option in parser._option_string_actions}
    foreign = f"--{flag.replace('-', '_')}" if len(flag) > 1 else f"-{flag}"

    message = said(capsys, "eval", "photos", foreign, "x")

    assert foreign.replace("_", "-") not in ours
    assert set(re.findall(r"--[a-z-]+", here)) <= ours
    assert f"{tool}'s {foreign} is" in message or f"/{tool}'s" in message or f"{tool}/" in message
    assert here in message


def test_flags_that_two_tools_use_differently_are_told_apart(capsys):
    message = said(capsys, "eval", "photos", "-b", "8")

    assert "lm-eval/lmms-eval's -b is --batch-size here; mteb's -b is --dataset here" in message


def test_all_flags_of_other_tools_are_answered_at_once(capsys):
    message = said(capsys, "eval", "--data", "MME", "--work-dir=out", "--api-nproc", "4", "--data", "POPE")

    assert message.count("VLMEvalKit's --data is --dataset here\n") == 1
    assert "VLMEvalKit's --work-dir is --output here\nVLMEvalKit's --api-nproc is --concurrency here\n" in message


def test_eval_alone_starts_no_download(capsys):
    assert main(["eval"]) == 2

    expected = "eyechart: No dataset and no model given.\nFor example: `eyechart eval photos/ ViT-B-32:openai`\n"
    assert capsys.readouterr() == ("", expected)


def test_a_flag_of_another_tool_may_be_a_value_after_two_dashes(capsys):
    assert main(["eval", "--", "--data", "eyechart-tiny"]) == 2  # an unknown dataset, not VLMEvalKit's flag

    assert "VLMEvalKit" not in capsys.readouterr().err


def test_every_flag_of_every_command_is_shown_with_hyphens():
    assert [option for _, option in all_flags() if "_" in option] == []


def test_every_flag_of_every_command_is_taken_in_both_spellings():
    found = list(all_flags())

    assert {option for _, option in found} >= {"--dataset-root", "--work-dir", "--no-browser", "--keep-images"}
    for parser, option in found:
        other = option.replace("-", "_").replace("__", "--", 1)
        assert parser._spelled([other, f"{other}=a_b", "--", other]) == [option, f"{option}=a_b", "--", other]


def test_a_beginning_of_a_flag_is_enough_in_both_spellings():
    for words in (["--dataset_ro", "x"], ["--dataset-ro=x"], ["--dataset_ro=x"]):
        assert make_parser("eyechart", "eval").parse_args(["eval", *words]).dataset_root == "x"


def test_the_words_of_a_script_are_left_alone():
    words = ["as", "clip_benchmark", "script.py", "--dataset_root", "x_y", "--unknown"]

    assert make_parser("eyechart", "as").parse_args(words).words == words[2:]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("eval --datset x", "eyechart eval: unknown flag --datset; did you mean --dataset?"),
        ("eval --skip_existng", "eyechart eval: unknown flag --skip_existng; did you mean --skip-existing?"),
        ("list datasets --serch x", "eyechart list: unknown flag --serch; did you mean --search?"),
        ("report results --titel=x", "eyechart report: unknown flag --titel; did you mean --title?"),
        ("vlm convert x --colunm a=b", "eyechart vlm convert: unknown flag --colunm; did you mean --column?"),
        ("eval --precision fp23", "argument --precision: invalid choice: 'fp23'; did you mean fp32?"),
        ("eval --engine cloud", "argument --engine: invalid choice: 'cloud'; choose from local, ray"),
        ("eval --limit many", "argument --limit: invalid int value: 'many'"),
        (
            "eval --recall-k 1 photos",
            "invalid int value: 'photos'; --recall-k takes several values: put positional arguments before",
        ),
        ("eval --limit", "argument --limit: expected one argument"),
        ("evl", "invalid choice: 'evl'; did you mean eval"),
        ("info cifar10 more", "eyechart info: unexpected arguments: more"),
    ],
)
def test_wrong_words_are_answered_in_two_lines(capsys, words, message):
    first, second = said(capsys, *words.split()).splitlines()

    assert message in first
    assert re.fullmatch(r"see eyechart( \S+){0,2} --help", second)


def test_a_value_that_cannot_be_is_told_of_its_flag(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert main(["eval", "--dataset", "demo/scenes", "--model", "eyechart-tiny", "--min-success", "2"]) == 2

    assert "--min-success: Input should be less than or equal to 1" in capsys.readouterr().err


def test_errors_show_flags_with_hyphens_too(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert main(["eval", "--dataset", "demo/garmnts", "--model", "eyechart-tiny"]) == 2

    said = capsys.readouterr().err
    assert "--dataset-root" in said
    assert "--dataset_root" not in said


def shown(capsys, flag):
    with pytest.raises(SystemExit, match="0"):
        main(["eval", flag])
    return capsys.readouterr().out


def test_help_has_examples_first_and_fits_two_screens(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")

    text = shown(capsys, "--help")

    assert text.index("eyechart eval photos/ ViT-B-32:openai") < text.index("--dataset NAME ...")
    assert len(text.splitlines()) <= 80
    assert max(map(len, text.splitlines())) <= 80
    assert "eyechart eval --help-all" in text
    assert "--human-verdicts" not in text


def test_help_all_shows_every_flag(capsys):
    text = shown(capsys, "--help-all")

    (parser,) = parsers("eval")
    hidden = {
        option for action in parser._actions if action.help == argparse.SUPPRESS for option in action.option_strings
    }
    for option in parser._option_string_actions.keys() - hidden:
        assert option in text


def test_the_common_flags_exist():
    (parser,) = parsers("eval")

    assert parser.common <= parser._option_string_actions.keys()
