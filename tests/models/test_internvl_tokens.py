"""InternVL's tokens: SentencePiece's own, which transformers does not give for a vocabulary with appended pieces."""

import json

import numpy as np
import pytest
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from transformers import AutoTokenizer

from eyechart.errors import ModelError
from eyechart.models.internvl.checkpoint import LlamaPieces
from eyechart.types import ModelSpec
from support.internvl import DATA, SMALL_FILE, write_file, write_folder
from support.zoo import load
from support.zoo_tokenizers import CORPUS, llama_model

TEXTS = [*CORPUS, "two  spaces", " a space before and behind ", "a tab\tand a line\n", "😀", "été", ""]


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    """Train a small vocabulary and append Chinese pieces of score 0, as Chinese-LLaMA-Alpaca did."""
    return llama_model(tmp_path_factory.mktemp("vocabulary") / "tokenizer.model")


def test_tokens_are_sentencepieces_where_transformers_joins_appended_pieces_otherwise(vocabulary):
    raw = SentencePieceProcessor(model_file=str(vocabulary))
    expected = [[1, *raw.encode(text), 2] for text in TEXTS]
    marks = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "tokenizer_class": "LlamaTokenizer"}
    (vocabulary.parent / "tokenizer_config.json").write_text(json.dumps(marks))
    transformers = AutoTokenizer.from_pretrained(vocabulary.parent, use_fast=False, add_eos_token=True)

    pieces = LlamaPieces(vocabulary)

    assert [pieces.encode(text) for text in TEXTS] == expected
    assert [list(transformers(text)["input_ids"]) for text in TEXTS] != expected


def test_marks_in_a_text_are_marks_and_what_is_between_them_is_read_on_its_own(vocabulary):
    raw = SentencePieceProcessor(model_file=str(vocabulary))

    ids = LlamaPieces(vocabulary).encode("a<unk> cat </s><s> b")

    assert ids == [1, *raw.encode("a"), 0, *raw.encode(" cat "), 2, 1, *raw.encode(" b"), 2]
    # The authors' ids of "<unk> test </s> x", by another vocabulary, are built in the same way.
    (row,) = np.load(DATA / "folder_expected.npz")["ids"][[6]]
    assert row[:12].tolist() == [1, 19138, 675, 29901, 0, 29871, 1243, 29871, 2, 29871, 921, 2]


def test_a_long_text_is_cut_at_80_and_keeps_its_end_mark(vocabulary):
    pieces = LlamaPieces(vocabulary)
    long = "summarize:" + "a cat " * 100

    (cut, short) = pieces.padded([long, "a"])

    assert cut == [*pieces.encode(long)[:79], 2]
    assert short == [*pieces.encode("a"), *[0] * (80 - len(pieces.encode("a")))]


def test_every_text_gets_the_prefix_and_cut_ones_are_counted(zoo):
    encoder = zoo.encoder("internvl_c_retrieval")

    ids = encoder.tokenize(["a cat"], "en")["ids"]

    assert ids[0].tolist() == encoder.tokenizer.padded(["summarize:a cat"])[0]
    assert encoder.truncated(["a cat", "a cat " * 100]) == [False, True]


@pytest.mark.parametrize(
    ("place", "option"),
    [
        ("tokenizer.model", None),
        ("InternVL-14B-224px/tokenizer.model", None),
        ("chinese_alpaca_lora_7b/tokenizer.model", None),
        ("elsewhere/tokenizer.model", "elsewhere"),
        ("elsewhere/my.model", "elsewhere/my.model"),
    ],
)
@pytest.mark.parametrize("form", ["file", "folder"])
def test_the_vocabulary_is_found_with_the_checkpoint_beside_it_or_by_option(tmp_path, place, option, form):
    if form == "file":
        path, name = write_file(tmp_path / "weights.pth", vocabulary=False), "internvl_c_retrieval"
    else:
        path, name = write_folder(tmp_path / "model", vocabulary=False), "internvl_c_retrieval_hf"
    home = path if form == "folder" and place == "tokenizer.model" else tmp_path
    options = {"tokenizer": str(tmp_path / option)} if option else {}
    spec = ModelSpec("internvl", name, str(path), options=options)
    with pytest.raises(ModelError, match="No tokenizer found for"):
        load(spec)

    llama_model(home / place)

    assert load(spec).encode_texts(["a cat"]).shape == (1, 24)


def test_a_vocabulary_that_the_model_has_no_rows_for_is_refused_and_a_small_one_noted(zoo, tmp_path):
    assert zoo.encoder("internvl_c_retrieval").card.notes == (
        "The tokenizer has 386 pieces, but the model has embeddings for 400: check that they belong together.",
    )
    path = write_file(tmp_path / "weights.pth", SMALL_FILE | {"words": 300})
    with pytest.raises(ModelError, match="has 386 pieces, but the model has embeddings for 300 only"):
        load(ModelSpec("internvl", "internvl_c_retrieval", str(path)))


def test_a_file_that_is_no_vocabulary_is_named(tmp_path):
    path = write_file(tmp_path / "weights.pth", vocabulary=False)
    (tmp_path / "tokenizer.model").write_bytes(b"not a vocabulary")

    with pytest.raises(ModelError, match=r"tokenizer\.model is not a valid tokenizer"):
        load(ModelSpec("internvl", "internvl_c_retrieval", str(path)))


def test_a_vocabulary_without_marks_is_not_llamas(tmp_path):
    SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS), model_prefix=str(tmp_path / "t5"), vocab_size=150, bos_id=-1,
        hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip

    with pytest.raises(ModelError, match="lacks a begin or end token"):
        LlamaPieces(tmp_path / "t5.model")
