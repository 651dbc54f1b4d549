"""Made-up results, written once for all tests of the report, and the browser."""

from __future__ import annotations

import asyncio
import os

import pytest

from support.make_results import MODELS, make_suite


@pytest.fixture(scope="session")
def suite(tmp_path_factory):
    """Results of six made-up models on every kind of benchmark."""
    return make_suite(tmp_path_factory.mktemp("suite"), n=120, thumbnails=12)


@pytest.fixture(scope="session")
def small_suite(tmp_path_factory):
    """The same with two models."""
    return make_suite(tmp_path_factory.mktemp("small"), models=MODELS[1:3], n=60, thumbnails=4)


@pytest.fixture(scope="module")
def browser():
    """A real Chromium. Without one the tests are skipped, unless CI_BROWSER says that there must be one.

    Playwright keeps an event loop running in the thread of the tests until it is stopped. So it is stopped after each
    file: tests of other rooms may start loops of their own.
    """
    from support.browser import chromium, find_chromium

    if find_chromium() is None:
        message = "no chromium on this machine: run `make browser` (apt-get install chromium)"
        if os.environ.get("CI_BROWSER"):
            pytest.fail(message)
        pytest.skip(message)
    with chromium() as running:
        yield running
    with pytest.raises(RuntimeError, match="no running event loop"):
        asyncio.get_running_loop()
