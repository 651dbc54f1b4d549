"""Made-up results, written once for all tests of the report."""

from __future__ import annotations

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
