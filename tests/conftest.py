"""Fixtures for all tests: a cache of their own, and small data in the real formats."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """Give every test an empty cache, so that none sees another one's embeddings."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("EYECHART_CACHE", str(cache))
    return cache
