"""A collection of images and texts, searched by an encoder and reranked by a model that sees both."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from eyechart import evaluate
from eyechart.errors import ModelError, UsageError
from eyechart.inference.embeddings import CachedEncoder
from eyechart.models.rerankers import CrossEncoderReranker
from support.data import noise_image, write_retrieval
from support.text_models import save_seeing_cross_encoder, save_tiny_cross_encoder

QUERIES = ["a red cat", "the blue dog", "green mat", "a photo of the dog"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def gallery(folder):
    """Eight images, two texts, and one item that is both; each query has one relevant document."""
    (folder / "images").mkdir(parents=True)
    for i in range(8):
        noise_image(i).save(folder / "images" / f"{i}.png")
    items = [{"_id": f"i{i}", "image": f"{i}.png"} for i in range(8)]
    items += [{"_id": "t0", "text": "a cat"}, {"_id": "t1", "text": "the dog"}]
    items += [{"_id": "b", "text": "a mat", "image": "3.png"}]
    write_lines(folder / "corpus.jsonl", items)
    write_lines(folder / "queries.jsonl", [{"_id": f"q{i}", "text": text} for i, text in enumerate(QUERIES)])
    relevant = ["i2", "t1", "b", "i7"]
    rows = [{"query-id": f"q{i}", "corpus-id": name, "score": 1} for i, name in enumerate(relevant)]
    write_lines(folder / "qrels.jsonl", rows)
    return items, dict(zip((f"q{i}" for i in range(4)), relevant, strict=True))


def run(reranker, output="out.json", **options):
    [result] = evaluate(
        model=["eyechart-tiny"],
        dataset=["collection/g"],
        dataset_root="g",
        task=["zeroshot_retrieval"],
        output=output,
        reranker=reranker,
        recall_k=[1, 3],
        **options,
    )
    return result


def test_the_top_documents_are_ordered_by_the_scores_of_the_library(here):
    import torch
    from sentence_transformers import CrossEncoder

    items, relevant = gallery(Path("g"))
    folder = save_seeing_cross_encoder(here / "seeing")
    plain = run("")
    result = run(folder, output="two.json", task_options={"top_k": 11})

    library, contents = CrossEncoder(folder, device="cpu"), {}
    for item in items:
        parts = {"text": item["text"]} if "text" in item else {}
        if "image" in item:
            parts["image"] = Image.open(f"g/images/{item['image']}").convert("RGB")
        contents[item["_id"]] = parts
    ranks = []
    for i, query in enumerate(QUERIES):
        pairs = [({"text": query}, content) for content in contents.values()]
        scores = library.predict(pairs, activation_fn=torch.nn.Identity(), show_progress_bar=False)
        own = scores[list(contents).index(relevant[f"q{i}"])]
        ranks.append(int((scores >= own).sum()))
    assert result.metrics["mrr_at_10"] == pytest.approx(np.mean([1 / rank if rank <= 10 else 0 for rank in ranks]))
    assert result.metrics["hit_rate_at_3"] == pytest.approx(np.mean([rank <= 3 for rank in ranks]))
    assert result.metrics != plain.metrics
    assert result.details["reranker"]["name"] == folder
    assert result.details["gallery"] == plain.details["gallery"] == {"image": 8, "text": 2, "image+text": 1}
    assert "reranked_depth" in {notice["kind"] for notice in result.notices}


def test_only_the_top_documents_of_the_encoder_are_scored_and_scores_are_stored(here, monkeypatch):
    gallery(Path("g"))
    folder = save_seeing_cross_encoder(here / "seeing")
    seen = []
    score = CrossEncoderReranker.score

    def counting(self, shortlists, keep):
        lists = list(shortlists)
        seen.extend(len(one.documents) for one in lists)
        return score(self, lists, keep)

    monkeypatch.setattr(CrossEncoderReranker, "score", counting)
    run(folder, task_options={"top_k": 3})
    assert seen == [3] * 4
    noise_image(99).save("g/images/0.png")
    run(folder, output="changed.json", task_options={"top_k": 11})
    assert seen[4:] == [11] * 4
    run(folder, output="other.json", task_options={"top_k": 11}, metrics="full")
    assert len(seen) == 8  # stored scores


def test_a_reranker_of_texts_is_refused_before_images_are_embedded(here, monkeypatch):
    gallery(Path("g"))
    folder = save_tiny_cross_encoder(here / "cross")

    def never(*args, **kwargs):
        raise AssertionError("embedded")

    monkeypatch.setattr(CachedEncoder, "images", never)
    with pytest.raises(ModelError, match="scores pairs of texts, but collection/g contains images"):
        run(folder)


def test_captions_have_no_collection_to_rerank(here):
    write_retrieval(here / "pairs", captions=[["a cat"], ["a dog"]])
    folder = save_tiny_cross_encoder(here / "cross")
    with pytest.raises(UsageError, match=r"does not apply to .*: it is not a collection"):
        evaluate(model=["eyechart-tiny"], dataset=["pairs"], output="out.json", reranker=folder)


def test_a_constant_reranker_is_no_better_than_the_last_place(here, monkeypatch):
    gallery(Path("g"))
    folder = save_seeing_cross_encoder(here / "seeing")

    def constant(self, shortlists, keep):
        for one in shortlists:
            yield one.id, [0.0] * len(one.documents)

    monkeypatch.setattr(CrossEncoderReranker, "score", constant)
    result = run(folder, task_options={"top_k": 11})
    assert result.metrics["hit_rate_at_1"] == result.metrics["hit_rate_at_3"] == 0
