"""Small sentence-transformers models: one that sees and reads, one that only reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from eyechart.types import ModelSpec
from support import zoo_transformers
from support.zoo import Case, seeded
from support.zoo_tokenizers import bert_tokenizer


def _documented(model, folder: Path, *, sees: bool) -> Case:
    model.save(str(folder))

    from sentence_transformers import SentenceTransformer

    loaded = SentenceTransformer(str(folder), device="cpu")

    def encode(items):
        return np.asarray(loaded.encode(items, convert_to_numpy=True, show_progress_bar=False), np.float32)

    return Case(
        ModelSpec("sentence-transformers", str(folder)),
        (lambda images: encode([image.convert("RGB") for image in images])) if sees else None,
        encode,
        parts=tuple(folder.rglob("model.safetensors")),
    )


def clip(folder: Path) -> Case:
    from sentence_transformers import SentenceTransformer

    zoo_transformers.clip(folder / "clip")
    return _documented(SentenceTransformer(str(folder / "clip"), device="cpu"), folder / "saved", sees=True)


def text(folder: Path) -> Case:
    """BERT, mean pooling, unit length, with a default prompt."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import modules
    from transformers import BertConfig, BertModel

    seeded()
    tokenizer = bert_tokenizer(folder / "bert")
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32
    )
    BertModel(config).save_pretrained(folder / "bert")
    reader = modules.Transformer(str(folder / "bert"), max_seq_length=64)
    model = SentenceTransformer(
        modules=[reader, modules.Pooling(32, include_prompt=False), modules.Normalize()],
        device="cpu",
        prompts={"query": "query: "},
        default_prompt_name="query",
    )
    return _documented(model, folder / "saved", sees=False)


CASES = {"sentence-transformers-clip": clip, "sentence-transformers-text": text}
