"""axe-core finds nothing serious on any view, in both themes, on a phone and on a screen."""

from __future__ import annotations

import pytest

from eyechart.report.loader import load_results
from eyechart.report.page import make_page
from eyechart.report.page.payload import make_payload
from support.browser import place_of

Axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe

pytestmark = pytest.mark.slow  # a real browser

VIEWS = {
    "overview": ("#/", ""),
    "classes": ("digits", ""),
    "retrieval": ("postcards", ""),
    "questions": ("flags", ""),
    "compare": ("#/compare", ""),
    "results": ("#/results?model=1", ""),
    "a result": ("#/", "#matrix td[title]"),
    "a sample": ("digits", ".card button"),
    "a query": ("postcards", ".card button"),
    "a question": ("flags", ".card button"),
}
"""What to look at: a benchmark or an address, and what to click there to open a dialog."""
TASKS = {"digits": "zeroshot_classification", "postcards": "zeroshot_retrieval", "flags": "questions"}
GUISES = (("light", 400), ("dark", 1400))
"""The theme changes colours and nothing else, the width the layout and nothing else: each is seen both ways."""


@pytest.fixture(scope="module")
def write_open(tmp_path_factory):
    """Write a page without its policy: axe-core comes into it from outside, which the policy rightly forbids."""

    def write(payload):
        path = tmp_path_factory.mktemp("page") / "report.html"
        path.write_text(make_page(payload).decode().replace("http-equiv=", "data-was=", 1))
        return path

    return write


@pytest.fixture(scope="module")
def open_report(write_open, small_suite, answers):
    return write_open(make_payload(load_results([small_suite, answers]).found))


@pytest.fixture(scope="module")
def open_published(write_open):
    return write_open(make_payload([], references=["internvl"]))


def serious(page) -> list[str]:
    """Say what axe-core finds that is worse than minor."""
    found = Axe().run(page).response["violations"]
    return [
        f"{rule['id']}: {node['html'][:120]} {node['failureSummary']}"
        for rule in found
        if rule["impact"] in ("serious", "critical", "moderate")
        for node in rule["nodes"]
    ]


def serious_in_every_guise(page) -> dict[tuple[str, int], list[str]]:
    """Look in both themes, on a phone and on a screen."""
    found = {}
    for scheme, width in GUISES:
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_selector(f"html[data-theme={scheme}]")
        page.evaluate("() => Promise.all(document.getAnimations().map((running) => running.finished))")
        found[scheme, width] = serious(page)
    return {guise: problems for guise, problems in found.items() if problems}


@pytest.mark.parametrize("view", VIEWS)
def test_no_serious_violation(watched, open_report, view):
    address, opener = VIEWS[view]
    if address in TASKS:
        address = f"#/benchmark/{place_of(open_report, address, TASKS[address])}"
    page = watched.open(open_report, address)
    if opener:
        page.locator(opener).first.click()
        page.wait_for_selector("dialog[open]")

    assert serious_in_every_guise(page) == {}


@pytest.mark.parametrize("view", ["overview", "classes", "compare"])
def test_no_serious_violation_in_chinese(watched, open_report, view):
    address = VIEWS[view][0]
    if address in TASKS:
        address = f"#/benchmark/{place_of(open_report, address, TASKS[address])}"
    page = watched.open(open_report, address)
    page.get_by_role("button", name="中文").click()
    watched.drawn()

    assert page.get_attribute("html", "lang") == "zh-Hans"
    assert serious_in_every_guise(page) == {}


def test_no_serious_violation_in_published_tables(watched, open_published):
    assert serious_in_every_guise(watched.open(open_published, "#/published")) == {}


def test_the_check_finds_what_it_should(watched, open_report):
    page = watched.open(open_report)
    page.evaluate("() => { document.querySelector('#tools button').setAttribute('aria-label', ''); }")
    page.evaluate("() => { document.querySelector('#tools button').textContent = ''; }")

    assert any("button-name" in problem for problem in serious(page))
