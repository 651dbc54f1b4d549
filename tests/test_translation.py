"""The table of Chinese words: nothing in it goes stale, nothing is lost between the two languages."""

from __future__ import annotations

import re

import pytest

from eyechart.errors import unknown_name
from eyechart.io.terminal import language, translate, words
from eyechart.messages import PART, UserMessage
from support.source_texts import coverage, stale, untranslated

TRANSLATED = 0.95
"""The share of templates that must have a translation."""

SECTIONS = ("notes", "messages", "help", "headings", "progress")


@pytest.fixture
def chinese(monkeypatch):
    monkeypatch.setenv("EYECHART_LANG", "zh")


def test_every_text_of_the_table_is_said_by_the_source():
    assert stale() == []


@pytest.mark.parametrize("section", ["page", *SECTIONS])
def test_both_languages_have_the_same_places(section):
    def places(text):
        # Chinese has no plural, so {n:image|images} has no counterpart.
        return {part[0].replace("|t", "") for part in PART.finditer(text) if part["one"] is None}

    assert {text: said for text, said in words(section).items() if places(text) != places(said)} == {}


def test_what_lacks_a_translation_is_known_and_little():
    lacking = untranslated()

    assert coverage("error", "notice", "message") >= TRANSLATED, "\n".join(f"{w[0]}: {t}" for t, w in lacking.items())


@pytest.mark.parametrize("value", ["zh", "zh_CN", "zh-CN", "ZH", "zh_CN.UTF-8", "zh-Hans"])
def test_chinese_has_several_spellings(monkeypatch, value):
    monkeypatch.setenv("EYECHART_LANG", value)

    assert language() == "zh"


@pytest.mark.parametrize("value", ["", "en", "de_DE.UTF-8", "zh_TW", "nonsense", "C"])
def test_what_is_not_known_is_english_without_a_word(monkeypatch, capsys, value):
    monkeypatch.setenv("EYECHART_LANG", value)

    assert translate("Nothing was removed.") == "Nothing was removed."
    assert capsys.readouterr() == ("", "")


def test_values_are_kept_and_words_among_them_translated(chinese):
    assert translate(unknown_name("dataset", "cifra10", []).message) == words("messages")[
        "Unknown {kind}: {name!r}."
    ].replace("{kind|t}", "数据集").replace("{name!r}", "'cifra10'")


def test_a_line_is_translated_sentence_by_sentence_and_the_rest_stays(chinese):
    text = "  Choose another {--output}. Nobody has translated this.\nNothing was removed.\n"
    said = translate(UserMessage(text))

    assert re.fullmatch(r"  [^A-Za-z]+--output[^A-Za-z]+Nobody has translated this\.\n[^A-Za-z]+\n", said)


def test_english_is_the_default(monkeypatch):
    monkeypatch.delenv("EYECHART_LANG", raising=False)

    assert translate("Nothing was removed.") == "Nothing was removed."
