"""A folder to work in, with small custom data as in EvalScope's documentation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.clipart import ROWS
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


@pytest.fixture
def local_task(here, monkeypatch):
    """An MTEB task of the library's own class, with a data folder on this machine, under MTEB's own registry."""
    import sys

    from mteb.abstasks import AbsTaskSTS
    from mteb.abstasks.task_metadata import TaskMetadata

    Path("sts").mkdir()
    rows = [
        {
            "sentence1": row["title"],
            "sentence2": ROWS[(i + i % 3) % len(ROWS)]["description"],
            "score": float(5 - i % 3),
        }
        for i, row in enumerate(ROWS[:30])
    ]
    Path("sts/test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    class ClipartSTS(AbsTaskSTS):
        metadata = TaskMetadata(
            name="ClipartSTS", dataset={"path": str(Path("sts").absolute()), "revision": "1"}, description="drawings",
            reference=None, type="STS", category="t2t", modalities=["text"], eval_splits=["test"],
            eval_langs=["eng-Latn"], main_score="cosine_spearman", date=("2004-01-01", "2010-01-01"), domains=["Web"],
            task_subtypes=[], license="cc0-1.0", annotations_creators="derived", dialect=[], sample_creation="found",
            bibtex_citation="",
        )  # fmt: skip
        min_score, max_score = 0, 5

    monkeypatch.setitem(sys.modules["mteb.get_tasks"]._TASKS_REGISTRY, "ClipartSTS", ClipartSTS)
    monkeypatch.setenv("HF_DATASETS_CACHE", str(here / "hf"))
    return ClipartSTS
