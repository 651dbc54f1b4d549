"""Models of sentence-transformers: pooling, length, prompts, similarity; one model however it is asked for."""

import json
import shutil

import numpy as np
import pytest

from eyechart.errors import ModelError, UsageError
from eyechart.inference.embeddings import StoredEmbeddings
from eyechart.models.access import Access
from eyechart.models.encoders.sentence_parts import own_prompts
from eyechart.models.registry import open_model
from eyechart.store.vectors import EmbeddingStore
from eyechart.types import ModelSpec
from support.text_models import minilm
from support.zoo import load, photos

FAMILY = "sentence-transformers"
TEXTS = ["a cat", "two dogs that are running over a wide meadow"]


def spec_of(name=None, **options):
    return ModelSpec(FAMILY, name or minilm(), options=options)


def library(folder):
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(folder, device="cpu")


@pytest.fixture
def with_prompt(zoo):
    """Return the folder of a model whose default prompt is 'query: ', left out of the mean."""
    return zoo.case("sentence-transformers-text").spec.name


def test_real_weights_give_the_librarys_vectors():
    np.testing.assert_allclose(load(spec_of()).encode_texts(TEXTS), library(minilm()).encode(TEXTS), atol=1e-5)


@pytest.mark.parametrize("pooling", ["cls", "mean", "max", "lasttoken"])
def test_pooling_is_what_its_name_says(pooling):
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(minilm()), AutoModel.from_pretrained(minilm())
    inputs = tokenizer(TEXTS, padding=True, return_tensors="pt")
    with torch.inference_mode():
        states = model(**inputs).last_hidden_state
    mask = inputs["attention_mask"].bool()
    expected = torch.stack(
        [
            {"cls": row[0], "mean": row[m].mean(0), "max": row[m].max(0).values, "lasttoken": row[m][-1]}[pooling]
            for row, m in zip(states, mask, strict=True)
        ]
    )

    np.testing.assert_allclose(load(spec_of(pooling_mode=pooling)).encode_texts(TEXTS), expected.numpy(), atol=1e-5)


def test_long_texts_are_cut_where_the_option_says_and_reported():
    short, whole = load(spec_of(max_seq_length=8)), load(spec_of())
    text = "one two three four five six seven eight nine ten"

    assert short.truncated([text, "one"]) == [True, False]
    assert whole.truncated([text]) == [False]
    assert not np.allclose(short.encode_texts([text]), whole.encode_texts([text]))
    assert short.card.fingerprint != whole.card.fingerprint
    assert load(spec_of(max_seq_length=100_000)).card.context_length == 512


def test_a_model_that_only_reads_says_so_to_images():
    encoder = load(spec_of())

    with pytest.raises(ModelError, match="reads texts only; it cannot see images"):
        encoder.prepare_image(photos()[0])
    with pytest.raises(ModelError, match="reads texts only; it cannot see images"):
        encoder.encode_images(np.zeros((1, 3, 8, 8), np.float32))


def test_the_default_prompt_stands_before_every_text_unless_prompts_are_given_in_the_texts(with_prompt):
    own, given = load(spec_of(with_prompt)), load(spec_of(with_prompt, prompts="given"))
    expected = library(with_prompt)

    np.testing.assert_allclose(own.encode_texts(TEXTS), expected.encode(TEXTS), atol=1e-5)
    np.testing.assert_allclose(given.encode_texts(TEXTS), expected.encode(TEXTS, prompt=""), atol=1e-5)
    assert own.card.fingerprint != given.card.fingerprint
    assert any("made to leave them out" in note for note in given.card.notes)


def test_the_prompts_that_the_authors_saved_can_be_read_without_loading(with_prompt):
    assert own_prompts(spec_of(with_prompt)) == {"query": "query: ", "document": ""}
    assert own_prompts(spec_of()) == {}


def test_unknown_prompts_are_refused():
    with pytest.raises(UsageError, match="own or given"):
        load(spec_of(prompts="mine"))


def test_a_text_model_is_stored_once_whoever_asks_for_it(tmp_path, monkeypatch):
    store = EmbeddingStore(tmp_path / "store")
    like_eval = ModelSpec(FAMILY, minilm(), device="cpu")
    like_run_task = ModelSpec(FAMILY, minilm(), options={"prompts": "given"}, access=Access(batch_size=3))
    first, second = (StoredEmbeddings(open_model(spec), store) for spec in (like_eval, like_run_task))
    expected = first.texts(TEXTS)
    loaded = second.model.load()
    monkeypatch.setattr(loaded, "encode_texts", lambda *_, **__: pytest.fail("encoded again"))

    assert first.card.fingerprint == second.card.fingerprint
    np.testing.assert_array_equal(second.texts(TEXTS), expected)


@pytest.mark.parametrize("similarity", ["cosine", "dot", "euclidean"])
def test_the_card_says_how_the_model_compares(tmp_path, similarity):
    folder = shutil.copytree(minilm(), tmp_path / "model")
    config = json.loads((folder / "config_sentence_transformers.json").read_text())
    (folder / "config_sentence_transformers.json").write_text(json.dumps(config | {"similarity_fn_name": similarity}))

    assert load(spec_of(str(folder))).card.similarity == similarity
    assert load(spec_of(str(folder), pooling_mode="cls")).card.similarity == similarity


def test_a_card_without_a_word_on_similarity_means_cosine(zoo):
    assert load(spec_of()).card.similarity == "cosine"
    assert zoo.encoder("clip").card.similarity == "cosine"


def test_weights_that_were_saved_in_half_are_computed_in_the_precision_that_was_asked_for(tmp_path):
    folder = tmp_path / "half"
    model = library(minilm()).half()
    model.save(str(folder))

    encoder = load(spec_of(str(folder)))

    assert {parameter.dtype for parameter in encoder.model.parameters()} == {__import__("torch").float32}
    np.testing.assert_allclose(encoder.encode_texts(TEXTS), model.float().encode(TEXTS), atol=1e-5)
