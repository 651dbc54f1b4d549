"""A folder to work in, with small custom data as in EvalScope's documentation."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.data import noise_image
from support.retrieval_data import write_queries

QUERIES = {
    "dog": ["dog"],
    "AMNH": ["building"],
    "tokyo": ["city", "tokyo"],
    "tesla": ["car", "tesla"],
    "running": ["man", "running"],
}


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Work in a folder of the test's own, as paths in configs are relative to it."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def custom(here):
    """The folder of the documentation's example: five images with one or two queries each."""
    folder = Path("custom_eval/multimodal")
    (folder / "images").mkdir(parents=True)
    (folder / "text-image-retrieval").mkdir()
    rows = []
    for seed, (name, queries) in enumerate(QUERIES.items()):
        path = folder / "images" / f"{name}.jpg"
        noise_image(seed).save(path)
        rows.append({"image_path": str(path), "query": queries})
    write_queries(folder / "text-image-retrieval", rows)
    return str(folder / "text-image-retrieval")
