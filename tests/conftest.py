"""Fixtures for all tests: a cache of their own, and small data in the real formats."""

from __future__ import annotations

import pytest
from hypothesis import settings

# The first example of a test may import a library, and a busy machine is slow: time is not what these tests are about.
settings.register_profile("eyechart", deadline=None)
settings.load_profile("eyechart")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """Give every test an empty cache, so that none sees another one's embeddings."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("EYECHART_CACHE", str(cache))
    return cache
