"""axe-core finds nothing serious on any view, in both themes, on a phone and on a screen."""

from __future__ import annotations

from functools import cache

import pytest
from axe_playwright_python.sync_playwright import Axe

from eyechart.report.load import load_results
from eyechart.report.page import make_page
from eyechart.report.payload import make_payload
from support.browser import Watched

pytestmark = pytest.mark.slow  # a real browser

VIEWS = {
    "overview": ("#/", ""),
    "classes": ("#/benchmark/4", ""),
    "retrieval": ("#/benchmark/8", ""),
    "questions": ("#/benchmark/9", ""),
    "compare": ("#/compare", ""),
    "results": ("#/results?model=1", ""),
    "a result": ("#/", "#matrix td[title]"),
    "a sample": ("#/benchmark/2", ".card button"),
    "a query": ("#/benchmark/8", ".card button"),
    "a question": ("#/benchmark/9", ".card button"),
}
"""What to look at: the address, and what to click there to open a dialog."""


@pytest.fixture(scope="module")
def open_report(suite, browser, tmp_path_factory):
    """Open a page without its policy: axe-core comes into it from outside, which the policy rightly forbids."""

    @cache
    def write(reference):
        path = tmp_path_factory.mktemp("page") / "report.html"
        references = [reference] if reference else []
        page = make_page(make_payload(load_results([suite]).found, references=references)).decode()
        path.write_text(page.replace("http-equiv=", "data-was=", 1))
        return path

    def open_view(view, reference=""):
        watched = Watched(browser)
        watched.open(write(reference), view)
        return watched

    return open_view


def serious(page) -> list[str]:
    """Say what axe-core finds that is worse than minor."""
    found = Axe().run(page).response["violations"]
    return [
        f"{rule['id']}: {node['html'][:120]} {node['failureSummary']}"
        for rule in found
        if rule["impact"] in ("serious", "critical", "moderate")
        for node in rule["nodes"]
    ]


def serious_in_every_guise(page) -> dict[str, list[str]]:
    """Look in both themes, on a phone and on a screen."""
    found = {}
    for scheme in ("light", "dark"):
        for width in (400, 1400):
            page.emulate_media(color_scheme=scheme)
            page.set_viewport_size({"width": width, "height": 900})
            page.wait_for_timeout(100)
            found[f"{scheme} {width}"] = serious(page)
    return {guise: problems for guise, problems in found.items() if problems}


@pytest.mark.parametrize("view", VIEWS)
def test_no_serious_violation(open_report, view):
    address, opener = VIEWS[view]
    watched = open_report(address)
    if opener:
        watched.page.locator(opener).first.click()
        watched.page.wait_for_selector("dialog[open]")

    assert serious_in_every_guise(watched.page) == {}
    watched.close()


def test_no_serious_violation_in_published_tables(open_report):
    watched = open_report("#/published", reference="internvl")

    assert serious_in_every_guise(watched.page) == {}
    watched.close()


def test_the_check_finds_what_it_should(open_report):
    watched = open_report("#/")
    watched.page.evaluate("() => { document.querySelector('#tools button').setAttribute('aria-label', ''); }")
    watched.page.evaluate("() => { document.querySelector('#tools button').textContent = ''; }")

    assert any("button-name" in problem for problem in serious(watched.page))
    watched.close()
