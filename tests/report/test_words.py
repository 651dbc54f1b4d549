"""The page in Chinese: one table of words, a switch that is remembered, and nothing of the data changed."""

from __future__ import annotations

import json
import re
from importlib import resources

import pytest

from eyechart.io.translate import words
from eyechart.report.load import load_results
from eyechart.report.page import make_page
from eyechart.report.page.payload import make_payload
from support.source_texts import is_in_the_source

TEMPLATES = resources.files("eyechart.report.page").joinpath("templates")
SCRIPTS = {part.name: part.read_text(encoding="utf-8") for part in TEMPLATES.iterdir() if part.name.endswith(".js")}
LITERAL = re.compile(r'\b(?:t|tNodes|word|say)\(\s*("(?:[^"\\]|\\.)*")')
COUNTED = re.compile(r'\bcount\([^"\n]*?, "([^"]+)"\)')


def spoken(script: str) -> set[str]:
    """Collect the texts of a script that go through the table."""
    literals = {json.loads(found) for found in LITERAL.findall(script)}
    return literals | {f"{{n}} {noun}s" for noun in COUNTED.findall(script)}


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_text_of_the_page_has_chinese_words(name):
    assert spoken(SCRIPTS[name]) - words("page").keys() == set()


def test_every_text_of_the_table_is_on_the_page():
    texts = set().union(*map(spoken, SCRIPTS.values()))

    assert [text for text in words("page") if text not in texts and not is_in_the_source(text)] == []


def test_no_text_is_put_together_before_it_is_translated():
    assert [name for name, script in SCRIPTS.items() if re.search(r"\b(?:t|tNodes|word)\(\s*`", script)] == ["words.js"]


@pytest.fixture(scope="session")
def chinese_report(suite, tmp_path_factory):
    """The page of the suite, made by somebody who reads Chinese."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EYECHART_LANG", "zh_CN.UTF-8")
        path.write_bytes(make_page(make_payload(load_results([suite]).found, version="0")))
    return path


@pytest.mark.slow
def test_the_language_switch_changes_the_words_and_is_remembered(watched, report):
    page = watched.open(report)
    assert page.get_attribute("html", "lang") == "en"

    page.get_by_role("button", name="中文").click()
    watched.drawn()

    assert page.get_attribute("html", "lang") == "zh-Hans"
    assert page.locator("nav a").first.text_content() == "总览"
    assert page.locator("#tools button").first.text_content().endswith("自动")
    page.reload()
    watched.drawn()
    assert page.locator("nav a").first.text_content() == "总览"
    page.get_by_role("button", name="English").click()
    watched.drawn()
    assert page.locator("nav a").first.text_content() == "Overview"
    assert page.get_attribute("html", "lang") == "en"


@pytest.mark.slow
def test_a_page_made_in_chinese_opens_in_chinese(watched, chinese_report):
    page = watched.open(chinese_report)

    assert page.get_attribute("html", "lang") == "zh-Hans"
    assert page.locator("nav a").first.text_content() == "总览"
