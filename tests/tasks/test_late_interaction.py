"""Late interaction through the tasks: MaxSim of the library's own vectors, the ragged store, ties."""

import dataclasses
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
from support.makers import MAKERS, OPTIONS
from support.tasks import make_context, run_task

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

    words = [
        "--model",
        "model",
        "--dataset",
        "data/captions.jsonl",
        "--task",
        "zeroshot_retrieval",
        "--recall-k",
        "1",
        "3",
    ]
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


def collection(count=9):
    """Queries and documents of the same words in another order, so that roles matter."""
    texts = [" ".join(WORDS[(i * k) % 7] for k in (1, 2, 4)) + " a" * (i % 3) for i in range(count)]
    return TextCollection(
        documents=tuple(Document(f"d{i}", text + " of cat .") for i, text in enumerate(texts)),
        queries=tuple(Document(f"q{i}", text) for i, text in enumerate(texts)),
        relevance={f"q{i}": {f"d{i}": 1.0} for i in range(count)},
    )


def library_ranks(folder, found):
    queries, documents = (
        late_models.library_texts(folder, role, [item.text for item in items])
        for role, items in (("query", found.queries), ("document", found.documents))
    )
    return [expected_rank([maxsim(query, item) for item in documents], i) for i, query in enumerate(queries)]


@pytest.mark.parametrize("name", late_models.TEXT_MODELS)
def test_text_retrieval_encodes_by_role_and_ranks_by_maxsim(here, name):
    (here / "model").mkdir()
    late_models.TEXT_MODELS[name](here / "model")
    write_collection(collection(), here / "data")

    result = run("--model", "model", "--dataset", "data", "--store-precision", "fp32")

    assert result["task"] == "text_retrieval"
    assert [record["rank"] for record in records(result)] == library_ranks(here / "model", collection())
    assert result["details"]["mteb"]["scores"]["test"][0]["main_score"] == pytest.approx(
        result["metric_values"]["ndcg_at_10"]["value"], abs=1e-4
    )


def test_a_prompt_beside_the_role_is_refused(here, capsys):
    (here / "model").mkdir()
    late_models.multi_vector(here / "model")
    write_collection(collection(), here / "data")

    code = main(["eval", "--model", "model", "--dataset", "data", "--query-prompt", "find: ", "--output", "out.json"])

    assert code != 0
    assert "takes the role of an input" in " ".join(capsys.readouterr().err.split())


def several(encoder, vectors_of):
    """Turn an encoder into one with several vectors per input: as many as ``vectors_of`` makes of each."""
    one = encoder.encode_images, encoder.encode_texts
    encoder.card = dataclasses.replace(encoder.card, multi_vector=True, similarity="maxsim")
    encoder.encode_images = lambda batch: MultiVectors.of([vectors_of(row) for row in one[0](batch)], DIM)
    encoder.encode_texts = lambda texts, *, language="en": MultiVectors.of(
        [vectors_of(row) for row in one[1](texts, language=language)], DIM
    )
    return encoder


def own_number(row):
    return 1 + int(abs(row[0]) * 10) % 4


BLIND = {
    "the same vectors": lambda row: np.tile(np.linspace(-1, 1, DIM, dtype=np.float32), (3, 1)),
    "different numbers of the same vector": lambda row: np.ones((own_number(row), DIM), np.float32),
    "zero vectors": lambda row: np.zeros((own_number(row), DIM), np.float32),
    "no vectors": lambda row: np.empty((0, DIM), np.float32),
}
RETRIEVAL = [name for name, maker in MAKERS.items() if maker.task in ("zeroshot_retrieval", "text_retrieval")]


@pytest.mark.parametrize("blind", BLIND)
@pytest.mark.parametrize("name", RETRIEVAL)
def test_an_encoder_that_does_not_look_gets_chance_or_less(tmp_path, name, blind):
    maker = MAKERS[name]
    root = maker.write(tmp_path / "data")

    found = maker.run(root, several(random_encoder(), BLIND[blind]), tmp_path / "store")

    judged = {metric: value for metric, value in found.metrics.items() if value.chance is not None}
    assert judged
    for metric, value in judged.items():
        assert value.value <= value.chance + 1e-9, metric
    assert {notice.kind for notice in found.notices} & {"constant_vectors", "zero_vectors"}


@pytest.mark.parametrize("name", RETRIEVAL)
def test_one_vector_each_by_maxsim_is_the_dot_product(tmp_path, name):
    maker = MAKERS[name]
    root = maker.write(tmp_path / "data")

    def alone(row):
        return (row / np.linalg.norm(row))[None]

    context = make_context(root, several(random_encoder(), alone), tmp_path / "several", reader=maker.reader)
    context.encoder.options = dataclasses.replace(context.encoder.options, half=False)
    found = run_task(maker.task, context, **{**OPTIONS, **maker.options})
    usual = maker.run(root, random_encoder(), tmp_path / "usual")

    assert {key: metric.value for key, metric in found.metrics.items()} == pytest.approx(
        {key: metric.value for key, metric in usual.metrics.items()}, abs=1e-6
    )
