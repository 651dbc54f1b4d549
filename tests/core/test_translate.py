"""The table of Chinese words: nothing in it goes stale, nothing is lost between the two languages."""

from __future__ import annotations

import re

import pytest

from eyechart.io.translate import language, translate, words
from support.source_texts import is_in_the_source

SECTIONS = ("notes", "messages", "help", "headings", "progress")
TEXTS = [(section, text) for section in SECTIONS for text in words(section)]
PUT_TOGETHER = {
    "{task} (the default)",
    "{task} (generative models)",
    "{task} (with --folds 5, as there is no split train)",
}
PUT_TOGETHER |= {"{n} failed", "{n} left out", "{n} unreadable", "Left out: {reason}"}
PUT_TOGETHER |= {
    "{help} (default: {value})",
    "To see it: `{command}`",
    "To see them: `{command}`",
    "{n} published models",
}
PUT_TOGETHER |= {
    "Run both with the same data and settings.",
    "{n} jobs",
    "1 job",
    "disk: vectors about {n} MB",
    "Run both with the same data and settings, or say that it is meant: {flag}",
}
"""What the source says by joining a count or a prefix with words."""


@pytest.fixture
def chinese(monkeypatch):
    monkeypatch.setenv("EYECHART_LANG", "zh")


@pytest.mark.parametrize("section", SECTIONS)
def test_every_text_of_the_table_is_said_by_the_source(section):
    assert [text for text in words(section) if text not in PUT_TOGETHER and not is_in_the_source(text)] == []


@pytest.mark.parametrize("section", ["page", *SECTIONS])
def test_both_languages_have_the_same_places(section):
    def places(text):
        return set(re.findall(r"\{(\w+)(?:\|t)?\}", text))

    assert {text: said for text, said in words(section).items() if places(text) != places(said)} == {}


OPEN = {"{program}: {message}"}
"""A program is one of ours, and nothing else."""


def test_no_text_is_so_open_that_it_catches_others():
    patterns = {text: re.sub(r"\{\w+\}", "", text) for _, text in TEXTS if "{" in text and text not in OPEN}

    assert [text for text, own in patterns.items() if len(re.findall(r"[A-Za-z]", own)) < 4] == []


@pytest.mark.parametrize("value", ["zh", "zh_CN", "zh-CN", "ZH", "zh_CN.UTF-8", "zh-Hans"])
def test_chinese_has_several_spellings(monkeypatch, value):
    monkeypatch.setenv("EYECHART_LANG", value)

    assert language() == "zh"


@pytest.mark.parametrize("value", ["", "en", "de_DE.UTF-8", "zh_TW", "nonsense", "C"])
def test_what_is_not_known_is_english_without_a_word(monkeypatch, capsys, value):
    monkeypatch.setenv("EYECHART_LANG", value)

    assert translate("There is nothing to run.") == "There is nothing to run."
    assert capsys.readouterr() == ("", "")


def test_values_are_kept_and_words_among_them_translated(chinese):
    assert translate("Unknown dataset: 'cifra10'.") == words("messages")["Unknown {kind}: {name}."].replace(
        "{kind|t}", "数据集"
    ).replace("{name}", "'cifra10'")


def test_a_line_is_translated_sentence_by_sentence_and_the_rest_stays(chinese):
    said = translate("  Choose another --output. Nobody has translated this.\nThere is nothing to run.\n")

    assert re.fullmatch(r"  [^A-Za-z]+--output[^A-Za-z]+Nobody has translated this\.\n[^A-Za-z]+\n", said)


def test_english_is_the_default(monkeypatch):
    monkeypatch.delenv("EYECHART_LANG", raising=False)

    assert translate("There is nothing to run.") == "There is nothing to run."
