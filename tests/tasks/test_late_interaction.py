"""Late interaction through the tasks: MaxSim of the library's own vectors, the ragged store, ties."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file

from eyechart.cli import main
from eyechart.datasets.text_collection import write_collection
from eyechart.metrics.vectors import MultiVectors
from eyechart.types import Document, TextCollection
from support import late_models
from support.data import noise_image
from support.encoders import DIM, random_encoder
from support.makers import MAKERS
from support.tasks import make_context
from eyechart.tasks.registry import load_task

pytest.importorskip("sentence_transformers")
WORDS = ["cat", "photo", "two", "red", "shirts", "table", "bag"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.setenv("EYECHART_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words):
    assert main(["eval", *words, "--quiet", "--output", "out.json"]) == 0
    with open("out.json") as stream:  # noqa: PTH123 - in the test's folder
        return json.load(stream)


def records(result):
    with open(result["records"]["file"]) as stream:  # noqa: PTH123
        return [json.loads(line) for line in stream]


def maxsim(query, document):
    return float((query.astype(np.float64) @ document.astype(np.float64).T).max(axis=1).sum())


def expected_rank(scores, right):
    return 1 + sum(score >= scores[right] for i, score in enumerate(scores) if i != right)


def captioned_pages(folder, count=8):
    """Write images with one caption each; return both."""
    (folder / "images").mkdir(parents=True)
    pages = [noise_image(i, (40 + i, 30)) for i in range(count)]
    captions = [f"{WORDS[i % 7]} {WORDS[(i + 3) % 7]} {i}" for i in range(count)]
    rows = []
    for i, page in enumerate(pages):
        page.save(folder / "images" / f"{i}.png")
        rows.append({"image": f"images/{i}.png", "caption": captions[i]})
    (folder / "captions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return pages, captions


@pytest.mark.parametrize("name", ["ColPali", "ColQwen2"])
def test_captions_retrieve_pages_by_maxsim_and_a_second_run_reads_the_store(here, name):
    (here / "model").mkdir()
    late_models.PAGE_MODELS[name](here / "model")
    pages, captions = captioned_pages(here / "data")

    words = ["--model", "model", "--dataset", "data/captions.jsonl", "--task", "zeroshot_retrieval", "--recall-k", "1", "3"]
    full = run(*words, "--store-precision", "fp32")

    texts = late_models.library_pages(here / "model", captions)
    images = late_models.library_pages(here / "model", pages)
    by_text = [expected_rank([maxsim(text, image) for image in images], i) for i, text in enumerate(texts)]
    by_image = [expected_rank([maxsim(image, text) for text in texts], i) for i, image in enumerate(images)]
    found = records(full)
    assert [record["rank"] for record in found if record["query"] == "text"] == by_text
    assert [record["rank"] for record in found if record["query"] == "image"] == by_image
    assert full["job"]["settings"]["store_precision"] == "fp32"
    assert full["model_card"]["multi_vector"]

    half = run(*words)  # rounded from the full vectors
    assert "store_precision" not in half["job"]["settings"]
    again = run(*words)
    assert "throughput" not in again["provenance"]
    assert records(again) == records(half)
    kept = {path.parent.name: load_file(path) for path in (here / "cache" / "embeddings").rglob("*.safetensors")}
    ragged = {role: part for role, part in kept.items() if "starts" in part}
    assert {part["vectors"].dtype for role, part in ragged.items() if role.endswith("fp16")} == {np.dtype(np.float16)}
    assert len([role for role in ragged if role.endswith("fp16")]) == 2
    assert main(["cache", "verify"]) == 0
