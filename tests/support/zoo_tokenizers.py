"""Small tokenizers of the real classes, made without a network and saved by their own library."""

from __future__ import annotations

import functools
import gzip
import itertools
from pathlib import Path

CORPUS = (
    "a photo of a cat on the grass",
    "two dogs run over a green field near the old house",
    "an astronaut in an orange suit smiles at the camera",
    "ein Foto von einem Hund und einer Katze",
    "a cup of coffee stands on a wooden table",
    "一只猫坐在草地上看着天空",
    "世界上最高的山在哪里",
    "SHOUTING words, punctuation! and (brackets) are fine; so are numbers 0 1 2 3 4 5 6 7 8 9",
)


def sentencepiece_model(path: Path, *, size: int = 200) -> Path:
    """Train a unigram SentencePiece model on a few sentences."""
    import sentencepiece

    path.parent.mkdir(parents=True, exist_ok=True)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS),
        model_prefix=str(path.with_suffix("")),
        vocab_size=size,
        character_coverage=1.0,
        pad_id=-1,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    return path


def llama_model(path: Path) -> Path:
    """Train a BPE SentencePiece model like LLaMA's, and append Chinese pieces to it, as Chinese-LLaMA-Alpaca did."""
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2

    path.parent.mkdir(parents=True, exist_ok=True)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS * 3), model_prefix=str(path.with_suffix("")), model_type="bpe", vocab_size=380,
        character_coverage=1.0, hard_vocab_limit=False, byte_fallback=True, normalization_rule_name="identity",
        remove_extra_whitespaces=False, pad_id=-1, unk_id=0, bos_id=1, eos_id=2, minloglevel=2,
    )  # fmt: skip
    model = sentencepiece_model_pb2.ModelProto.FromString(path.read_bytes())
    for piece in ("看着天空", "天空", "着天", "一只", "猫坐", "坐在草"):
        model.pieces.add(piece=piece, score=0.0)
    path.write_bytes(model.SerializeToString())
    return path


def clip_tokenizer(folder: Path):
    """Save CLIP's own vocabulary, which open_clip ships, as a transformers tokenizer."""
    tokenizer = _clip_tokenizer()
    tokenizer.save_pretrained(folder)
    return tokenizer


@functools.cache
def _clip_tokenizer():
    from open_clip.tokenizer import bytes_to_unicode, default_bpe
    from transformers import CLIPTokenizer

    with gzip.open(default_bpe()) as stream:
        lines = stream.read().decode().split("\n")[1 : 49152 - 256 - 2 + 1]
    merges = [tuple(line.split()) for line in lines]
    letters = list(bytes_to_unicode().values())
    words = [*letters, *(letter + "</w>" for letter in letters), *("".join(merge) for merge in merges)]
    vocabulary = {word: i for i, word in enumerate([*words, "<|startoftext|>", "<|endoftext|>"])}
    return CLIPTokenizer(vocab=vocabulary, merges=merges, model_max_length=77)


def bert_tokenizer(folder: Path):
    """Save a WordPiece tokenizer of single letters and Chinese characters."""
    from transformers import BertTokenizer

    letters = sorted({letter for text in CORPUS for letter in text.lower() if not letter.isspace()})
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters), "photo"]
    tokenizer = BertTokenizer(vocab={word: i for i, word in enumerate(words)}, model_max_length=512)
    tokenizer.save_pretrained(folder)
    return tokenizer


def xlmr_tokenizer(folder: Path):
    """Save an XLM-R unigram tokenizer."""
    from transformers import XLMRobertaTokenizer

    specials = ["<s>", "<pad>", "</s>", "<unk>"]
    pieces = [*((special, 0.0) for special in specials), *((piece, -float(i + 1)) for i, piece in enumerate(_pieces()))]
    tokenizer = XLMRobertaTokenizer(vocab=[*pieces, ("<mask>", 0.0)], model_max_length=512)
    tokenizer.save_pretrained(folder)
    return tokenizer


def gemma_like(kind: str, folder: Path, **options):
    """Save a byte-fallback BPE tokenizer: ``Siglip2Tokenizer``, ``GemmaTokenizer`` or ``NllbTokenizer``."""
    import transformers

    specials = {"NllbTokenizer": ["<s>", "<pad>", "</s>", "<unk>"]}.get(kind, ["<pad>", "<eos>", "<bos>", "<unk>"])
    words = [*specials, *(f"<0x{i:02X}>" for i in range(256)), *_pieces()]
    vocabulary = {word: i for i, word in enumerate(dict.fromkeys(words))}
    tokenizer = getattr(transformers, kind)(vocab=vocabulary, merges=[], **options)
    tokenizer.save_pretrained(folder)
    return tokenizer


def _pieces() -> list[str]:
    letters = itertools.chain.from_iterable(CORPUS)
    return list(dict.fromkeys(["▁", *(letter for letter in letters if letter != " ")]))
