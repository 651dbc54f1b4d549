"""The card of a model that was loaded before: believed while it can be, and never for another model."""

import dataclasses
import json
import shutil

import numpy as np
import pytest

from eyechart import evaluate
from eyechart.demo import model_folder
from eyechart.errors import ModelError
from eyechart.inference.answers import CachedReranker
from eyechart.inference.embeddings import CachedEncoder
from eyechart.io.files import CacheError
from eyechart.models.lazy_model import FORM, LazyModel, read_card, write_card
from eyechart.models.registry import open_model
from eyechart.models.rerankers import Shortlist
from eyechart.store.answer_store import ResponseStore
from eyechart.store.vector_store import EmbeddingStore, text_digests
from eyechart.types import ModelCard, ModelSpec, digest_json
from support.data import write_classification

SPEC = ModelSpec("onnx", "eyechart-tiny")
CARD = ModelCard("f", "n", "w", "t", embedding_dim=3, logit_scale=2.5, notes=("a note",), similarity="dot")


def file_of(cache):
    (file,) = (cache / "cards").iterdir()
    return file


def test_a_card_comes_back_as_it_was(own_cache):
    assert read_card(SPEC, "1") is None
    write_card(SPEC, "1", CARD)

    assert read_card(SPEC, "1") == CARD
    assert read_card(SPEC, "2") is None
    assert read_card(dataclasses.replace(SPEC, precision="bf16"), "1") is None
    assert read_card(dataclasses.replace(SPEC, device="cuda"), "1") == CARD


def changed(**fields):
    return {"digest": DIGEST, "card": {**FIELDS, **fields}}


FIELDS = json.loads(json.dumps(dataclasses.asdict(CARD)))
DIGEST, NEWER = "the digest", "the digest of a newer version"


DAMAGED = {
    "empty": b"",
    "cut": json.dumps(changed()).encode()[:-20],
    "no object": b"[1, 2]",
    "wrong types": json.dumps(changed(embedding_dim="3")).encode(),
    "a truth for a number": json.dumps(changed(embedding_dim=True)).encode(),
    "notes that are no texts": json.dumps(changed(notes=[1])).encode(),
    "prompts that are no texts": json.dumps(changed(prompts={"query": 1})).encode(),
    "missing fields": json.dumps({"digest": DIGEST, "card": {"family": "f"}}).encode(),
    "another number": json.dumps(changed(logit_scale=25.0)).encode(),
    "another similarity": json.dumps(changed(similarity="cosine")).encode(),
    "extra fields": json.dumps(changed(tomorrow=1)).encode(),
    "not UTF-8": b'{"digest": "\xff"}',
    "not a number": json.dumps(changed(logit_scale=float("nan"))).encode(),
    "huge": json.dumps(changed(transform="x" * 3_000_000)).encode(),
    "deep": b"[" * 100_000,
    "of a newer version": json.dumps({"digest": NEWER, "card": FIELDS}).encode(),
    "of version 0.1": json.dumps(dataclasses.asdict(CARD)).encode(),
}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_card_is_made_anew(own_cache, content):
    expected = open_model(SPEC).card
    file = file_of(own_cache)
    for name, form in ((NEWER, FORM + 1), (DIGEST, FORM)):
        content = content.replace(name.encode(), digest_json([form, file.stem, FIELDS]).encode())
    file.write_bytes(content)

    model = open_model(SPEC)

    assert model.known_card is None
    assert model.card == expected
    assert open_model(SPEC).known_card == expected


def test_a_card_that_was_copied_from_another_model_is_not_used(own_cache):
    write_card(SPEC, "1", CARD)
    other = dataclasses.replace(CARD, weights_digest="other weights")
    write_card(SPEC, "2", other)
    one, two = sorted((own_cache / "cards").glob("*.json"), key=lambda file: file.stat().st_mtime_ns)

    two.write_bytes(one.read_bytes())

    assert read_card(SPEC, "1") == CARD
    assert read_card(SPEC, "2") is None


def test_a_folder_in_the_place_of_a_card_is_one_clear_error(own_cache):
    open_model(SPEC).load()
    file = file_of(own_cache)
    file.unlink()
    file.mkdir()

    with pytest.raises(CacheError, match="Cannot write to the cache"):
        open_model(SPEC).load()


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(model_folder(), tmp_path / "model")


def keep_case(folder):
    """Let the tokenizer keep the case of texts: other tokens, from a file that holds no weights."""
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    tokenizer["normalizer"] = {"type": "NFC"}
    path.write_text(json.dumps(tokenizer))


def test_a_model_that_changes_between_its_card_and_its_loading_stores_nothing_under_the_old_card(folder, tmp_path):
    spec, store = ModelSpec("onnx", str(folder)), EmbeddingStore(tmp_path / "store")
    old = open_model(spec).card
    model = open_model(spec)
    embeddings = CachedEncoder(model, store)
    assert embeddings.card == old
    keep_case(folder)

    found = embeddings.texts(["A Red Shirt", "a red shirt"])

    new = open_model(spec).load()
    assert new.card.fingerprint != old.fingerprint
    assert embeddings.card == model.known_card == new.card
    np.testing.assert_array_equal(found, new.encode_texts(["A Red Shirt", "a red shirt"]))
    assert not np.allclose(found[0], found[1])
    keys = text_digests(["A Red Shirt", "a red shirt"], "en")
    assert store.table(old.fingerprint, "text").missing(keys).all()
    assert not store.table(new.card.fingerprint, "text").missing(keys).any()


def test_vectors_of_two_models_are_not_compared_with_each_other(folder, tmp_path):
    spec, store = ModelSpec("onnx", str(folder)), EmbeddingStore(tmp_path / "store")
    CachedEncoder(open_model(spec), store).texts(["a dress"])
    embeddings = CachedEncoder(open_model(spec), store)
    embeddings.texts(["a dress"])  # from the store, under the card of before
    keep_case(folder)

    with pytest.raises(ModelError, match="has changed since its card was cached"):
        embeddings.texts(["a shirt"])
    assert CachedEncoder(open_model(spec), store).texts(["a dress", "a shirt"]).shape == (2, 128)


def test_what_was_stored_for_the_old_model_is_computed_anew(folder, tmp_path):
    spec, store = ModelSpec("onnx", str(folder)), EmbeddingStore(tmp_path / "store")
    CachedEncoder(open_model(spec), store).texts(["A Dress"])
    embeddings = CachedEncoder(open_model(spec), store)
    assert embeddings.card is not None
    keep_case(folder)

    found = embeddings.texts(["A Dress", "a shirt"])

    np.testing.assert_array_equal(found[:1], open_model(spec).load().encode_texts(["A Dress"]))


def test_the_result_shows_the_card_of_the_model_that_was_loaded(folder, tmp_path, monkeypatch):
    write_classification(tmp_path / "data", n=4)
    monkeypatch.chdir(tmp_path)
    old = open_model(ModelSpec("onnx", str(folder), device="auto")).card
    read = LazyModel.known_card.fget

    def changes_afterwards(model):
        card = read(model)
        if card is not None and card.fingerprint == old.fingerprint:
            keep_case(folder)
        return card

    monkeypatch.setattr(LazyModel, "known_card", property(changes_afterwards))

    (result,) = evaluate(model=[str(folder)], dataset=["data"], output="r.json")

    monkeypatch.undo()
    monkeypatch.setenv("EYECHART_CACHE", str(tmp_path / "cache"))
    new = open_model(ModelSpec("onnx", str(folder), device="auto"))
    assert result.model_card["fingerprint"] == new.card.fingerprint != old.fingerprint


class Moody:
    """A family that knows too little of its models: what they are changes, and its identity does not."""

    def __init__(self):
        self.mood = "one"

    def check(self, spec):
        pass

    def identity(self, spec):
        return "always the same"

    def load(self, spec):
        return Scorer(self.mood)


class Scorer:
    def __init__(self, mood):
        self.card = ModelCard("moody", "m", mood, "t")

    def score(self, shortlists, keep):
        for shortlist in shortlists:
            keep(shortlist.id, [1.0])
            yield shortlist.id, [1.0]


def test_scores_and_answers_are_not_kept_under_the_card_of_another_model(own_cache):
    spec, family, store = ModelSpec("moody", "m"), Moody(), ResponseStore(own_cache / "responses")
    LazyModel(spec, family).load()
    family.mood = "two"
    asked = [Shortlist("q", "a", ("b",))]
    reranker = CachedReranker(LazyModel(spec, family), store)

    with pytest.raises(ModelError, match="has changed since its card was cached") as error:
        list(reranker.score(asked))

    assert "Run the same command again" in error.value.advice
    again = CachedReranker(LazyModel(spec, family), store)
    assert list(again.score(asked)) == [("q", [1.0])]
    assert again.card.weights_digest == "two"


def test_files_that_change_while_they_are_read_leave_the_model_unknown(own_cache):
    class Racing(Moody):
        def identity(self, spec):
            return self.mood

        def load(self, spec):
            self.mood = "replaced"
            return Scorer("one")

    model = LazyModel(ModelSpec("moody", "m"), Racing())
    assert model.identity == "one"

    model.load()

    assert model.identity is None
    assert not (own_cache / "cards").exists()


def test_a_model_of_a_hub_is_known_once_it_was_loaded(own_cache):
    class Downloaded(Moody):
        known = None

        def identity(self, spec):
            return self.known

        def load(self, spec):
            self.known = "content"
            return super().load(spec)

    model = LazyModel(ModelSpec("moody", "m"), Downloaded())
    assert (model.identity, model.known_card) == (None, None)

    model.load()

    assert model.identity == "content"
    assert model.known_card is not None
