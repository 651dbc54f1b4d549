"""``EYECHART_LANG=zh``: what people read is Chinese; numbers, exit codes and what programs read are the same."""

from __future__ import annotations

import argparse
import json
import re

import pytest
from PIL import Image

from eyechart.cli import COMMANDS, main, make_parser
from eyechart.cli.list import plain_lines, registries
from eyechart.io.terminal import text_width, translate, wrap
from eyechart.types import IN_MEMORY

HAN = re.compile(r"[\u4e00-\u9fff]")


@pytest.fixture
def say(monkeypatch, capsys):
    """Run a command in a language and return its exit code and both streams."""

    def run(*words, language="zh"):
        monkeypatch.setenv("EYECHART_LANG", language)
        monkeypatch.setenv("COLUMNS", "80")
        try:
            code = main(words)
        except SystemExit as end:
            code = end.code
        return code, *capsys.readouterr()

    return run


def flags_of(parser):
    """Yield a parser's flags and those of its own subcommands."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from (choice for choice in action._choices_actions)
            for other in action.choices.values():
                yield from flags_of(other)
        elif action.help not in (None, argparse.SUPPRESS):
            yield action


@pytest.mark.parametrize("command", COMMANDS)
def test_every_flag_is_explained_in_chinese(monkeypatch, command):
    monkeypatch.setenv("EYECHART_LANG", "zh")
    texts = {action.help for action in flags_of(make_parser("eyechart", command))}

    assert {text for text in texts if not HAN.search(translate(text))} == set()


@pytest.mark.parametrize("words", [["--help"], *([name, "--help"] for name in COMMANDS), ["eval", "--help-all"]])
def test_help_is_chinese_and_fits_the_terminal(say, words):
    code, help_text, _ = say(*words)

    assert code == 0
    assert help_text.startswith(translate("usage:"))
    assert len(HAN.findall(help_text)) >= 20
    prose = [line for line in help_text.splitlines() if HAN.search(line)]
    assert [line for line in prose if text_width(line) > 80] == []


@pytest.mark.parametrize(
    "words",
    [
        ["eval", "--datset", "x"],
        ["eval", "--model", "eyechart-tiny", "--dataset", "cifra10"],
        ["eval", "--model", "eyechart-tiny", "--dataset", "./nosuch"],
        ["eval", "--model", "nosuch.onnx", "--dataset", "demo/garments"],
        ["eval", "--limit", "x"],
        ["eval", "--precision", "fp61"],
        ["report", "nosuch"],
        ["compare", "nosuch"],
        ["list", "nosuch"],
        ["info", "cifra10"],
    ],
)
def test_errors_are_chinese_with_the_same_exit_code_and_names(say, words):
    english = say(*words, language="en")
    chinese = say(*words)

    assert chinese[0] == english[0] != 0
    assert chinese[1] == english[1] == ""
    assert HAN.search(chinese[2])
    assert not HAN.search(english[2])
    assert words[-1].removeprefix("./") in chinese[2] or words[1] in chinese[2]


def test_tables_have_chinese_heads_and_the_same_numbers(say, tmp_path):
    words = ["demo", "--output", str(tmp_path)]
    code, english, _ = say(*words, language="en")
    again, chinese, _ = say(*words)

    def numbers(text):
        return [re.findall(r"\d+\.\d+", line) for line in text.splitlines() if re.match(r"  \w+(@\d+)?  ", line)]

    assert (code, again) == (0, 0)
    assert numbers(chinese) == numbers(english)
    assert sum(map(len, numbers(english))) > 40
    assert translate("95 % interval") in chinese
    assert "image_retrieval_recall@1" in chinese
    assert '"language":"zh"' in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_doctor_and_lists_speak_chinese(say):
    assert HAN.search(say("doctor")[1])
    code, rows, head = say("list", "languages")
    assert code == 0
    assert HAN.search(head)
    assert rows.split() == say("list", "languages", language="en")[1].split()


def test_every_paragraph_about_a_task_or_a_family_is_chinese(monkeypatch):
    monkeypatch.setenv("EYECHART_LANG", "zh")
    about = {
        name: plain_lines(registry.load(name).__doc__)
        for registry in registries().values()
        for name in registry.names()
        if name != IN_MEMORY
    }

    assert {name: line for name, lines in about.items() for line in lines if not HAN.search(line)} == {}
    assert sum(map(len, about.values())) > 30


def test_data_of_one_s_own_are_described_in_chinese(say, tmp_path):
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        Image.new("RGB", (8, 8)).save(tmp_path / name / "1.png")
    _, shown, _ = say("info", str(tmp_path))

    assert "每个类别一个" in shown
    assert "没有提示模板" in shown
    assert re.search("zeroshot_classification.默认.", shown)
    assert "the default" not in shown


def test_what_programs_read_is_the_same(say):
    assert say("info", "cifar10", "--json") == say("info", "cifar10", "--json", language="en")
    assert json.loads(say("info", "cifar10", "--json")[1])["name"] == "cifar10"


def test_chinese_text_breaks_by_columns_and_before_no_closing_sign():
    text = "\u4e00" * 30 + "\uff0c" + "\u4e8c" * 30 + "\u3002 run `eyechart list datasets` now"

    lines = wrap(text, 20)

    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert [line for line in lines if text_width(line) > 20 and "`" not in line] == []
    assert not any(line[0] in "\uff0c\u3002" for line in lines)
    assert "`eyechart list datasets`" in lines
