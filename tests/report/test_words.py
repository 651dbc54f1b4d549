"""The page in Chinese: one table of words, a switch that is remembered, and nothing of the data changed."""

from __future__ import annotations

import json
import re
from importlib import resources

import pytest

from eyechart.io.terminal import words
from eyechart.report.loader import load_results
from eyechart.report.page import make_page
from eyechart.report.page.payload import make_payload
from support.browser import place_of
from support.make_results import chunks_of
from support.source_texts import source_runs

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

    assert [text for text in words("page") if text not in texts | source_runs()] == []


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
    assert page.title() == page.locator("h1").text_content() == words("page")["Eyechart report"]


COLLECT = """() => {
  const skip = new Set(["SCRIPT", "STYLE", "CODE", "BDI", "NOSCRIPT"]);
  const found = [];
  const walk = (node) => {
    if (node.nodeType === 3) found.push(node.data);
    if (node.nodeType !== 1 || skip.has(node.nodeName) || node.classList.contains("name")) return;
    for (const name of ["aria-label", "title", "alt"]) if (node.hasAttribute(name)) found.push(node.getAttribute(name));
    node.childNodes.forEach(walk);
  };
  walk(document.body);
  return found;
}"""
"""Every text of the page but data and commands; ``name`` is the class of names in charts."""
KEPT = {"Eyechart", "EYECHART", "English", "Markdown", "LaTeX", "CSV", "Holm", "McNemar", "Brier", "alpha", "kappa"}
KEPT |= {"Python", "token", "UTC"}
"""Names that are the same in Chinese."""


def names_in(value):
    """Yield every text of the page's own data."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple):
        for part in value.values() if isinstance(value, dict) else value:
            yield from names_in(part)


def english_words(page, known) -> list[str]:
    """List texts on the page in which words are left once names of models, benchmarks and metrics are taken out."""
    left = []
    for text in page.evaluate(COLLECT):
        rest = known.sub(" ", text)
        if set(re.findall(r"[A-Za-z]{3,}", rest)) - KEPT:
            left.append(text)
    return left


CHINESE_VIEWS = {
    "overview": ("#/", ""),
    "classes": ("digits", ""),
    "retrieval": ("postcards", ""),
    "questions": ("flags", ""),
    "compare": ("#/compare", ""),
    "results": ("#/results?model=1", ""),
    "published": ("#/published", ""),
    "a result": ("#/", "#matrix td[title]"),
    "a sample": ("digits", ".card button"),
    "a query": ("postcards", ".card button"),
    "a question": ("flags", ".card button"),
}
TASKS = {"digits": "zeroshot_classification", "postcards": "zeroshot_retrieval", "flags": "questions"}


@pytest.fixture(scope="module")
def chinese_page(small_suite, answers, tmp_path_factory):
    """The page of encoders and generators, in Chinese, and a pattern of all names in its data."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    payload = make_payload(load_results([small_suite, answers]).found, references=["internvl"], version="0")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EYECHART_LANG", "zh")
        path.write_bytes(make_page(payload))
    data = {key: value for key, value in payload.overview.items() if key != "averages"}
    ours = words("page").keys() | words("notes").keys()
    names = {name for name in names_in([data, chunks_of(payload), payload.published]) if name not in ours}
    keys = {key for benchmark in payload.overview["benchmarks"] for key in benchmark["metrics"]}
    ordered = sorted((names | keys) - {""}, key=len, reverse=True)
    return path, re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, ordered))})(?!\w)")


@pytest.mark.slow
@pytest.mark.parametrize("view", CHINESE_VIEWS)
def test_no_english_word_is_left_on_the_chinese_page(watched, chinese_page, view):
    path, names = chinese_page
    address, opener = CHINESE_VIEWS[view]
    if address in TASKS:
        address = f"#/benchmark/{place_of(path, address, TASKS[address])}"
    page = watched.open(path, address)
    if opener:
        page.locator(opener).first.click()
        page.wait_for_selector("dialog[open]")

    assert english_words(page, names) == []
