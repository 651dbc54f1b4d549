"""Tokens of SentencePiece vocabularies, against SentencePiece itself: which classes of transformers agree with it."""

import json
import re
import string

import numpy as np
import pytest
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer, sentencepiece_model_pb2
from transformers import AutoTokenizer

from eyechart.errors import ModelError
from eyechart.models.towers.sentencepieces import NOTE, PieceTokenizer, disagreements, exact_tokenizer
from eyechart.models.towers.torch_tools import tokenizer_digest
from eyechart.types import ModelSpec
from support.zoo import load
from support.zoo_tokenizers import CORPUS

NORMAL, USER_DEFINED = 1, 4
TEXTS = [
    *CORPUS,
    "UPPER Case Words",
    "two  spaces, a tab\tand\na line",
    "a space at the end ",
    "hello, world! (really?)",
    "a happy face 😀",
    "\ufb01ne \ufb01gures \u00bd \u2163 \uff26\uff35\uff2c\uff2c",
    "cafe\u0301",
    "[USER] asks",
    "a [USER] asks",
    "a [USER]b",
    "一只猫坐在草地上看着天空一只猫",
    "",
]
T5 = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
LLAMA = {
    "model_type": "bpe", "vocab_size": 400, "byte_fallback": True, "normalization_rule_name": "identity",
    "remove_extra_whitespaces": False, "pad_id": -1, "unk_id": 0, "bos_id": 1, "eos_id": 2,
}  # fmt: skip


def canonical(text):
    return re.sub(r"\s+", " ", text.lower().translate(str.maketrans("", "", string.punctuation))).strip()


def shifted(ids):
    """Number pieces as fairseq does, which XLM-R was trained with."""
    return [number + 1 if number else 3 for number in ids]


CLASSES = {
    "siglip": ("spiece.model", T5, {"tokenizer_class": "SiglipTokenizer", "eos_token": "</s>", "pad_token": "</s>"},
               lambda model, text: [*model.encode(canonical(text)), 1]),
    "mt5": ("spiece.model", T5, {"tokenizer_class": "T5Tokenizer", "extra_ids": 0},
            lambda model, text: [*model.encode(text), 1]),
    "xlm-roberta": ("sentencepiece.bpe.model", {"pad_id": -1}, {"tokenizer_class": "XLMRobertaTokenizer"},
                    lambda model, text: [0, *shifted(model.encode(text)), 2]),
    "llama": ("tokenizer.model", LLAMA,
              {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True, "add_eos_token": True},
              lambda model, text: [1, *model.encode(text), 2]),
}  # fmt: skip
"""AltCLIP reads with XLM-R's; the original code of all of them calls SentencePiece."""


def saved(folder, kind, extra=(), extra_type=USER_DEFINED, **training):
    """Train a small vocabulary, append pieces to it, and lay it out as a hub has it; return the reference too."""
    file, options, config, reference = CLASSES[kind]
    SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS * 3), model_prefix=str(folder / "trained"), character_coverage=1.0,
        hard_vocab_limit=False, minloglevel=2, **{"vocab_size": 200, **options, **training},
    )  # fmt: skip
    proto = sentencepiece_model_pb2.ModelProto.FromString((folder / "trained.model").read_bytes())
    for piece in extra:
        proto.pieces.add(piece=piece, score=0.0, type=extra_type)
    (folder / file).write_bytes(proto.SerializeToString())
    (folder / "config.json").write_text(json.dumps({"model_type": kind}))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    model = SentencePieceProcessor(model_file=str(folder / file))
    return AutoTokenizer.from_pretrained(folder), [reference(model, text) for text in TEXTS]


def ids(tokenizer):
    return [list(tokenizer(text)["input_ids"]) for text in TEXTS]


@pytest.mark.parametrize("kind", CLASSES)
def test_ordinary_vocabularies_are_read_alike_and_left_to_transformers(tmp_path, kind):
    tokenizer, expected = saved(tmp_path, kind)

    assert ids(tokenizer) == expected
    assert exact_tokenizer(tokenizer) == (tokenizer, [])


@pytest.mark.parametrize("kind", CLASSES)
def test_pieces_that_were_appended_are_read_as_sentencepiece_does(tmp_path, kind):
    tokenizer, expected = saved(tmp_path, kind, ["[USER]"])

    exact, notes = exact_tokenizer(tokenizer)

    assert ids(exact) == expected
    # Only SigLIP's class calls SentencePiece itself under transformers 5.
    assert (notes == []) is (kind == "siglip")


def test_the_vocabulary_is_that_of_the_cache_and_the_revision_that_were_loaded(tmp_path):
    root = tmp_path / "models--org--name"
    (root / "refs").mkdir(parents=True)
    for revision, extra in (("main", []), ("v2", ["[USER]"])):
        folder = root / "snapshots" / f"commit-{revision}"
        folder.mkdir(parents=True)
        tokenizer, expected = saved(folder, "llama", extra)
        (root / "refs" / revision).write_text(f"commit-{revision}")
    tokenizer.name_or_path = "org/name"

    exact, notes = exact_tokenizer(tokenizer, str(tmp_path), "v2")

    assert notes == [NOTE]
    assert ids(exact) == expected


def test_chinese_pieces_behind_llamas_as_internvl_has_them(tmp_path):
    tokenizer, expected = saved(tmp_path, "llama", ["看着天空", "天空", "着天"], NORMAL)

    assert ids(tokenizer) != expected
    exact, notes = exact_tokenizer(tokenizer)
    assert ids(exact) == expected
    assert notes == [NOTE]


@pytest.mark.parametrize("kind", ["mt5", "xlm-roberta"])
def test_a_vocabulary_of_the_other_algorithm_is_read_as_sentencepiece_does(tmp_path, kind):
    tokenizer, expected = saved(tmp_path, kind, model_type="bpe")

    assert ids(tokenizer) != expected
    assert disagreements(tokenizer)
    assert ids(exact_tokenizer(tokenizer)[0]) == expected


def test_cutting_padding_and_counting_are_those_of_transformers(tmp_path):
    tokenizer, _ = saved(tmp_path, "xlm-roberta")
    exact = PieceTokenizer(tokenizer, tmp_path / "sentencepiece.bpe.model")

    for options in (
        {},
        {"add_special_tokens": False},
        {"truncation": True, "max_length": 8},
        {"truncation": True, "max_length": 8, "padding": "max_length"},
        {"padding": True},
    ):
        assert dict(exact(TEXTS, verbose=False, **options)) == dict(tokenizer(TEXTS, verbose=False, **options))
        assert dict(exact("a cat", **options)) == dict(tokenizer("a cat", **options))
    theirs = tokenizer(TEXTS, padding=True, return_tensors="pt")
    for name, tensor in exact(TEXTS, padding=True, return_tensors="pt").items():
        np.testing.assert_array_equal(tensor.numpy(), theirs[name].numpy())


def test_a_tokenizer_that_lowers_case_still_does(tmp_path):
    from tokenizers import normalizers

    tokenizer, _ = saved(tmp_path, "mt5", model_type="bpe")
    inner = tokenizer.backend_tokenizer
    inner.normalizer = normalizers.Sequence([normalizers.Lowercase(), inner.normalizer])

    exact, notes = exact_tokenizer(tokenizer)

    assert notes == [NOTE]
    assert exact("A CAT")["input_ids"] == exact("a cat")["input_ids"]


def test_a_vocabulary_that_is_read_otherwise_is_another_tokenizer(tmp_path):
    tokenizer, _ = saved(tmp_path, "mt5", ["[USER]"])

    assert tokenizer_digest(exact_tokenizer(tokenizer)[0]) != tokenizer_digest(tokenizer)


def test_a_model_of_sentence_transformers_with_the_wrong_kind_of_vocabulary_is_refused(tmp_path):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import modules
    from transformers import XLMRobertaConfig, XLMRobertaModel

    tokenizer, _ = saved(tmp_path, "xlm-roberta", model_type="bpe")
    small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    XLMRobertaModel(XLMRobertaConfig(vocab_size=len(tokenizer), **small)).save_pretrained(tmp_path)
    reader = modules.Transformer(str(tmp_path))
    SentenceTransformer(modules=[reader, modules.Pooling(16)], device="cpu").save(str(tmp_path / "saved"))
    (tmp_path / "saved" / "sentencepiece.bpe.model").write_bytes((tmp_path / "sentencepiece.bpe.model").read_bytes())

    with pytest.raises(ModelError, match="differently from SentencePiece"):
        load(ModelSpec("sentence-transformers", str(tmp_path / "saved")))
