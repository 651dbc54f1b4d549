"""Results of real runs, made once for all tests of the report; a browser and a page that are shared."""

from __future__ import annotations

import asyncio
import os
import shutil

import pytest

from eyechart.report.loader import load_results
from eyechart.report.page import make_page
from eyechart.report.page.payload import make_payload
from support.make_results import exam, make_answers, make_control, make_suite


@pytest.fixture(scope="session")
def suite(tmp_path_factory):
    """The folder of the results of six models on every kind of benchmark that an encoder can do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EYECHART_CACHE", str(tmp_path_factory.mktemp("cache")))
        return make_suite(tmp_path_factory.mktemp("suite"), thumbnails=12)


@pytest.fixture(scope="session")
def answers(tmp_path_factory):
    """The folder of the results of two generators: multiple choice, open questions, captions."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EYECHART_CACHE", str(tmp_path_factory.mktemp("cache")))
        return make_answers(tmp_path_factory.mktemp("answers"))


@pytest.fixture(scope="session")
def small_suite(suite, tmp_path_factory):
    """Those of two of the models."""
    folder = tmp_path_factory.mktemp("small")
    for file in sorted(suite.glob("*Snellen-[BL]_*")):
        shutil.copy(file, folder)
    return folder


@pytest.fixture(scope="session")
def exam_data(tmp_path_factory):
    """A hundred images that models of known skill can be asked about."""
    return exam(tmp_path_factory.mktemp("exam") / "exam")


@pytest.fixture(scope="session")
def report(suite, tmp_path_factory):
    """The page of the suite."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_bytes(make_page(make_payload(load_results([suite]).found, version="0")))
    return path


@pytest.fixture(scope="session")
def published_report(suite, tmp_path_factory):
    """The page of one result, with published numbers beside."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    found = load_results([suite / "digits_Snellen-B_en_zeroshot_classification.json"]).found
    path.write_bytes(make_page(make_payload(found, references=["internvl"])))
    return path


@pytest.fixture(scope="session")
def answers_report(answers, tmp_path_factory):
    """The page of the generators."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_bytes(make_page(make_payload(load_results([answers]).found)))
    return path


@pytest.fixture(scope="session")
def control_report(tmp_path_factory):
    """The page of a generator with its control."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EYECHART_CACHE", str(tmp_path_factory.mktemp("cache")))
        results = make_control(tmp_path_factory.mktemp("control"))
    path.write_bytes(make_page(make_payload(load_results([results]).found)))
    return path


@pytest.fixture(scope="module")
def browser():
    """A real Chromium. Without one the tests are skipped, unless CI_BROWSER says that there must be one.

    Playwright keeps an event loop running in the thread of the tests until it is stopped. So it is stopped after each
    file: the next file of a worker may be of any folder, and its tests may start loops of their own.
    """
    expect = pytest.importorskip("playwright.sync_api").expect
    from support.browser import chromium, find_chromium

    if find_chromium() is None:
        message = "no chromium on this machine: run `make browser` (apt-get install chromium)"
        if os.environ.get("CI_BROWSER"):
            pytest.fail(message)
        pytest.skip(message)
    expect.set_options(timeout=60_000)  # what is waited for comes, however busy the machine is
    with chromium() as running:
        yield running
    with pytest.raises(RuntimeError, match="no running event loop"):
        asyncio.get_running_loop()


@pytest.fixture(scope="module")
def shared_page(browser):
    """One page for a file of tests."""
    from support.browser import Watched

    watched = Watched(browser)
    yield watched
    watched.context.close()


@pytest.fixture
def watched(shared_page):
    """A page that fails the test if it logs, raises or loads anything; it starts as if it had never been opened."""
    shared_page.fresh()
    yield shared_page
    shared_page.check()
