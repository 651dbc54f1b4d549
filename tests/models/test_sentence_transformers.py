"""Models of sentence-transformers: pooling, length, prompts, similarity; one model however it is asked for."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from eyechart import load_model
from eyechart.cli import main
from eyechart.errors import ModelError, UsageError
from eyechart.inference.embeddings import CachedEncoder
from eyechart.manifest import DatasetScan
from eyechart.models.access import Access
from eyechart.models.encoders.sentence_transformers import SentenceTransformersFamily, own_prompts
from eyechart.models.family import other_kind
from eyechart.models.registry import open_model
from eyechart.settings.tasks import TextRetrievalSettings
from eyechart.store.vector_store import EmbeddingStore
from eyechart.tasks.base import prompts_of
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
    with pytest.raises(ModelError, match="encodes texts, not images"):
        load_model(minilm(), model_type=FAMILY).encode_images([photos()[0]])


def test_the_default_prompt_stands_before_every_text_unless_prompts_are_given_in_the_texts(with_prompt):
    own, given = load(spec_of(with_prompt)), load(spec_of(with_prompt, prompts="given"))
    expected = library(with_prompt)

    np.testing.assert_allclose(own.encode_texts(TEXTS), expected.encode(TEXTS), atol=1e-5)
    np.testing.assert_allclose(given.encode_texts(TEXTS), expected.encode(TEXTS, prompt=""), atol=1e-5)
    assert own.card.fingerprint != given.card.fingerprint
    assert any("trained to exclude them" in note for note in given.card.notes)


def test_the_prompts_that_the_authors_saved_can_be_read_without_loading(with_prompt):
    assert own_prompts(spec_of(with_prompt)) == {"query": "query: ", "document": ""}
    assert own_prompts(spec_of()) == {}


def test_unknown_prompts_are_refused():
    with pytest.raises(UsageError, match="Known: given, own"):
        load(spec_of(prompts="mine"))


def test_a_text_model_is_stored_once_whoever_asks_for_it(tmp_path, monkeypatch):
    store = EmbeddingStore(tmp_path / "store")
    like_eval = ModelSpec(FAMILY, minilm(), device="cpu")
    like_run_task = ModelSpec(FAMILY, minilm(), options={"prompts": "given"}, access=Access(batch_size=3))
    first, second = (CachedEncoder(open_model(spec), store) for spec in (like_eval, like_run_task))
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


def saved(folder, *parts, **options):
    """Save a model of some modules."""
    from sentence_transformers import SentenceTransformer

    SentenceTransformer(modules=list(parts), device="cpu", **options).save(str(folder))
    return spec_of(str(folder))


def test_a_model_with_one_way_for_queries_and_another_for_documents_is_refused(tmp_path):
    from sentence_transformers.base.modules import Router
    from sentence_transformers.sentence_transformer import modules

    ways = Router.for_query_document([modules.Dense(384, 8)], [modules.Dense(384, 8)])
    spec = saved(tmp_path / "router", modules.Transformer(minilm()), modules.Pooling(384), ways)

    with pytest.raises(ModelError, match="encodes queries and documents with different modules"):
        load(spec)


def test_the_prompt_of_documents_is_the_one_that_the_library_takes(tmp_path):
    from sentence_transformers.sentence_transformer import modules

    both = {"document": "text: ", "passage": "passage: "}
    spec = saved(tmp_path / "both", modules.Transformer(minilm()), modules.Pooling(384), prompts=both)
    prompt = prompts_of(SimpleNamespace(encoder=load(spec)), TextRetrievalSettings())["document"]

    expected = library(spec.name).encode_document(TEXTS)
    given = load(spec_of(spec.name, prompts="given"))
    np.testing.assert_allclose(given.encode_texts([prompt + text for text in TEXTS]), expected, atol=1e-5)


def test_static_words_that_are_read_otherwise_are_another_model(tmp_path):
    from sentence_transformers.sentence_transformer import modules
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    words = Tokenizer(models.WordLevel({"?": 0, "zebra": 1, "horse": 2}, unk_token="?"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    weights = np.random.default_rng(0).normal(size=(3, 8)).astype(np.float32)
    before = load(saved(tmp_path / "before", modules.StaticEmbedding(words, embedding_weights=weights)))
    words.normalizer = normalizers.Replace("zebra", "horse")
    after = load(saved(tmp_path / "after", modules.StaticEmbedding(words, embedding_weights=weights)))

    assert before.card.fingerprint != after.card.fingerprint


def test_words_that_are_left_out_make_another_model(tmp_path):
    from sentence_transformers.sentence_transformer import modules
    from sentence_transformers.sentence_transformer.modules.tokenizer import WhitespaceTokenizer

    def fingerprint(*stop):
        words = WhitespaceTokenizer(vocab=["-", "zebra", "horse"], stop_words=stop)
        parts = modules.WordEmbeddings(words, np.eye(3, dtype=np.float32)), modules.Pooling(3)
        return load(saved(tmp_path / f"without-{len(stop)}", *parts)).card.fingerprint

    assert fingerprint() != fingerprint("zebra")


def test_a_similarity_that_is_not_used_for_images_is_noted(zoo, tmp_path):
    folder = shutil.copytree(zoo.case("sentence-transformers-clip").spec.name, tmp_path / "dot")
    config = folder / "config_sentence_transformers.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"similarity_fn_name": "dot"}))

    assert load(spec_of(str(folder))).card.notes == (
        "This model was trained with dot similarity; images and texts are compared by cosine.",
    )


def test_more_tokens_than_positions_is_an_error_of_the_model(tmp_path, with_prompt):
    folder = shutil.copytree(with_prompt, tmp_path / "long")
    config = folder / "sentence_bert_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"max_seq_length": 9999}))

    with pytest.raises(ModelError, match="The forward pass failed"):
        load(spec_of(str(folder))).encode_texts(["dog " * 3000])


def test_modules_that_another_pooling_leaves_out_are_noted(tmp_path):
    from sentence_transformers.sentence_transformer import modules

    parts = modules.Transformer(minilm()), modules.Pooling(384), modules.Dense(384, 8)
    spec = saved(tmp_path / "dense", *parts)

    assert "drops these modules: Dense" in load(spec_of(spec.name, pooling_mode="cls")).card.notes[0]
    assert not any("left out" in note for note in load(spec).card.notes)


def test_a_precision_that_model_kwargs_decide_is_noted():
    (note, _) = load(spec_of(model_kwargs={"torch_dtype": "float16"})).card.notes
    assert note == "The weights were loaded as torch.float16, as set by model_kwargs."


def tiny_bert(folder, kind):
    """Save a tiny random BERT of a class of transformers, with MiniLM's tokenizer."""
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(minilm())
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    config = transformers.BertConfig(vocab_size=len(tokenizer), num_labels=1, **sizes)
    getattr(transformers, kind)(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def sparse(folder):
    from sentence_transformers import SparseEncoder
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sparse_encoder.modules import SpladePooling

    plain = Transformer(tiny_bert(folder / "bert", "BertForMaskedLM"), transformer_task="fill-mask")
    SparseEncoder(modules=[plain, SpladePooling()], device="cpu").save_pretrained(str(folder))


def cross_encoder(folder):
    from sentence_transformers import CrossEncoder

    CrossEncoder(tiny_bert(folder / "bert", "BertForSequenceClassification"), device="cpu").save_pretrained(str(folder))


OTHER_KINDS = {
    "SPLADE": (sparse, "sparse encoder, which is not supported as an encoder: it returns sparse vectors"),
    "cross-encoder": (cross_encoder, "cross-encoder, which is not supported as an encoder: it scores pairs"),
}


@pytest.mark.parametrize("kind", OTHER_KINDS)
def test_a_folder_of_another_kind_is_refused_before_data_are_read(tmp_path, monkeypatch, capsys, kind):
    make, reason = OTHER_KINDS[kind]
    make(tmp_path / "other")
    monkeypatch.setattr(DatasetScan, "samples", lambda _: pytest.fail("data were read"))
    monkeypatch.chdir(tmp_path)

    code = main(["eval", "--model", "other", "--dataset", "demo/scenes", "--output", "out.json"])

    assert code != 0
    assert f"other is a {reason}" in capsys.readouterr().err
    assert not Path("out.json").exists()


def test_a_model_that_turns_out_to_be_of_another_kind_when_it_is_downloaded_is_refused(tmp_path, monkeypatch):
    sparse(tmp_path / "other")
    monkeypatch.setattr(SentenceTransformersFamily, "check", lambda *_: None)  # as for a name that is not cached yet

    with pytest.raises(ModelError, match="sparse encoder"):
        load(spec_of(str(tmp_path / "other")))


@pytest.mark.parametrize("kind", ["BertModel", "BertForMaskedLM"])
def test_a_plain_transformer_is_no_other_kind(tmp_path, kind):
    assert other_kind(Path(tiny_bert(tmp_path, kind))) == ""
    assert other_kind(Path(minilm())) == ""


def test_a_saved_dense_model_is_no_other_kind(zoo):
    assert other_kind(Path(zoo.case("sentence-transformers-clip").spec.name)) == ""
