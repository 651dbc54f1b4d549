"""image_queries.jsonl: what is one image, and which images a query means."""

import json

import numpy as np
import pytest

from eyechart.datasets.annotation_files import open_jsonl
from eyechart.errors import DataError
from eyechart.manifest import read_manifest
from eyechart.tasks.caption_search import RetrievalPrediction, search, shared_pairs
from eyechart.tasks.image_caption import as_collection
from eyechart.tasks.zeroshot_retrieval import ZeroshotRetrieval
from eyechart.types import Answer, DatasetSpec
from support.data import noise_image


def write(folder, *rows, images="abc"):
    for seed, name in enumerate(images):
        noise_image(seed, (8, 8)).save(folder / f"{name}.png")
    (folder / "image_queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return DatasetSpec("custom", "jsonl", str(folder))


def row(name, *queries, **more):
    return {"image_path": f"{name}.png", "query": list(queries), **more}


def test_lines_about_one_image_are_one_image_with_all_their_queries(tmp_path):
    spec = write(
        tmp_path,
        row("a", "x", source="me"),
        row("b", "y"),
        row("./a", "z", "x"),
        row("../" + tmp_path.name + "/a", "w"),
    )

    samples = open_jsonl(spec).rows

    assert [(sample.id, sample.texts) for sample in samples] == [("0", ("x", "z", "w")), ("1", ("y",))]
    assert samples[0].meta == {"source": "me"}


def test_a_missing_image_is_told_by_its_line_or_left_to_whoever_reads_it(tmp_path):
    spec = write(tmp_path, row("a", "x"), row("gone", "y"))

    with pytest.raises(DataError, match=r"line 2: the image 'gone\.png' does not exist"):
        open_jsonl(spec)
    kept = open_jsonl(DatasetSpec(spec.name, spec.reader, spec.root, options={"skip_missing": True}))
    manifest = read_manifest(kept, on_error="skip")

    assert [entry.id for entry in manifest.entries] == ["0"]
    assert "gone.png: cannot read the image" in manifest.failures[0].reason


@pytest.fixture
def manifest(tmp_path):
    return read_manifest(open_jsonl(write(tmp_path, row("a", "dog"), row("b", "dog", "sofa"), row("c", "cat"))))


def test_the_captions_of_all_images_that_have_a_query_are_relevant_to_it(manifest):
    found = as_collection({i: Answer(f"caption {i}") for i in range(3)}, {}, manifest)

    assert [(query.text, query.meta["image_id"]) for query in found.queries] == [
        ("dog", "0"),
        ("dog", "1"),
        ("sofa", "1"),
        ("cat", "2"),
    ]
    assert {query: set(documents) for query, documents in found.relevance.items()} == {
        "0": {"0", "1"},
        "1": {"0", "1"},
        "2": {"1"},
        "3": {"2"},
    }


def prediction_of(manifest, images, texts):
    return RetrievalPrediction(
        info=manifest.info,
        entries=manifest.entries,
        failures=(),
        images=np.array(images, np.float32),
        texts=np.array(texts, np.float32),
        owner=np.array([0, 1, 1, 2]),
        asked=np.arange(3),
        notices=(),
    )


def test_whichever_image_of_a_query_is_found_is_right_and_the_result_says_so(manifest):
    dog, sofa, cat = np.eye(3)
    prediction = prediction_of(manifest, [dog, sofa, cat], [dog, dog, sofa, cat])

    outcome = ZeroshotRetrieval().score(prediction, ZeroshotRetrieval.Settings(recall_k=[1]))

    # Image b's own "dog" finds image a: by the published convention that would be wrong.
    assert outcome.metrics["image_retrieval_recall@1"].value == 1
    assert outcome.metrics["text_retrieval_recall@1"].value == 1
    [notice] = [notice for notice in outcome.notices if notice.kind == "shared_texts"]
    assert notice.count == 2
    assert not [name for name in outcome.metrics if name.endswith("_distinct_texts")]


def test_ranks_and_chance_are_those_of_brute_force(manifest):
    draw = np.random.default_rng(3).standard_normal
    texts = draw((4, 5))
    texts[1] = texts[0]  # the same text
    prediction = prediction_of(manifest, draw((3, 5)), texts)
    right = np.array([[1, 1, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1]], bool)

    found, _ = search(prediction, np.arange(4), shared_pairs(prediction))
    outcome = ZeroshotRetrieval().score(prediction, ZeroshotRetrieval.Settings(recall_k=[1]))

    scores = prediction.texts.astype(float) @ prediction.images.T.astype(float)
    for queries, positives, ranks in ((scores, right, found[0].ranks), (scores.T, right.T, found[1].ranks)):
        best = np.where(positives, queries, -np.inf).max(axis=1, keepdims=True)
        assert ranks.ranks.tolist() == (1 + ((queries >= best) & ~positives).sum(axis=1)).tolist()
    assert outcome.metrics["image_retrieval_recall@1"].chance == pytest.approx((2 + 2 + 1 + 1) / 3 / 4)
    assert outcome.metrics["text_retrieval_recall@1"].chance == pytest.approx((2 + 3 + 1) / 4 / 3)
