"""Fixtures for all tests: a cache of their own, and small data in the real formats."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

# Workers of pytest-xdist share the cores: one thread each, before a library reads the variable.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# The first example of a test may import a library, and a busy machine is slow: time is not what these tests are about.
settings.register_profile("eyechart", deadline=None)
settings.load_profile("eyechart")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """Give every test an empty cache, so that none sees another one's embeddings."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("EYECHART_CACHE", str(cache))
    return cache
