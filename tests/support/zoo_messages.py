"""Small multimodal LLMs that take messages, saved as SentenceTransformers: Qwen2-VL, Qwen2.5-VL and Qwen3-VL."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from support.zoo import seeded

TEXT_WORDS = "a photo of cat dog two red blue find the query document represent image what is this . : ?"
SPECIAL = {
    "pad": "<|endoftext|>",
    "start": "<|im_start|>",
    "end": "<|im_end|>",
    "vision_start_token_id": "<|vision_start|>",
    "vision_end_token_id": "<|vision_end|>",
    "image_token_id": "<|image_pad|>",
    "video_token_id": "<|video_pad|>",
}
TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|> ' + m['role'] + ' ' }}{% if m['content'] is string %}{{ m['content'] }}"
    "{% else %}{% for c in m['content'] %}{% if c['type'] == 'image' %}"
    "{{ '<|vision_start|><|image_pad|><|vision_end|>' }}"
    "{% else %}{{ c['text'] }}{% endif %}{% endfor %}{% endif %}{{ ' <|im_end|> ' }}{% endfor %}"
)
ROPE = {"rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 10000.0}
TEXT = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2,
        "intermediate_size": 32, "rope_parameters": ROPE, "max_position_embeddings": 512}  # fmt: skip


def tokenizer():
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = [*SPECIAL.values(), "[UNK]", "user", "system", "assistant", *TEXT_WORDS.split()]
    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=made,
        unk_token="[UNK]",
        pad_token=SPECIAL["pad"],
        eos_token=SPECIAL["end"],
        additional_special_tokens=list(SPECIAL.values()),
    )
    fast.image_token, fast.video_token = SPECIAL["image_token_id"], SPECIAL["video_token_id"]
    return fast


def _vision(**more):
    return {"depth": 1, "hidden_size": 32, "num_heads": 2, "out_hidden_size": 32, **more}


def _parts(kind: str):
    import transformers as t

    if kind == "qwen2_vl":
        vision = {"depth": 1, "embed_dim": 32, "hidden_size": 32, "num_heads": 2, "mlp_ratio": 1}
        return t.Qwen2VLConfig, t.Qwen2VLModel, t.Qwen2VLProcessor, vision, TEXT
    if kind == "qwen2_5_vl":
        vision = _vision(intermediate_size=32, fullatt_block_indexes=[0], window_size=56)
        return t.Qwen2_5_VLConfig, t.Qwen2_5_VLModel, t.Qwen2_5_VLProcessor, vision, TEXT
    vision = _vision(intermediate_size=32, patch_size=14, num_position_embeddings=16, deepstack_visual_indexes=[0])
    text = TEXT | {"head_dim": 16, "rope_parameters": ROPE | {"mrope_interleaved": True}}
    return t.Qwen3VLConfig, t.Qwen3VLModel, t.Qwen3VLProcessor, vision, text


def message_model(folder: Path, kind: str = "qwen2_vl", pixels=(28 * 28, 84 * 84), **options) -> Path:
    """Save a tiny model of a kind, with last-token pooling; ``options`` go to SentenceTransformer."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import Qwen2VLImageProcessor, Qwen2VLVideoProcessor, Qwen3VLVideoProcessor

    seeded()
    config, model, processor, vision, text = _parts(kind)
    words = tokenizer()
    ids = {name: words.convert_tokens_to_ids(token) for name, token in SPECIAL.items() if name.endswith("_id")}
    made = config(text_config=text | {"vocab_size": len(words)}, vision_config=vision, **ids)
    made.architectures = [model.__name__]
    video = Qwen3VLVideoProcessor() if kind == "qwen3_vl" else Qwen2VLVideoProcessor()
    images = Qwen2VLImageProcessor(min_pixels=pixels[0], max_pixels=pixels[1])
    plain = folder / "plain"
    model(made).save_pretrained(plain)
    processor(images, words, video, chat_template=TEMPLATE).save_pretrained(plain)
    inner = Transformer(str(plain))
    SentenceTransformer(modules=[inner, Pooling(32, "lasttoken")], device="cpu", **options).save(str(folder / "saved"))
    return folder / "saved"


def images(n: int = 5) -> list[Image.Image]:
    """Return images of several sizes."""
    rng = np.random.default_rng(0)
    sizes = [(56, 56), (80, 40), (60, 90), (120, 100), (33, 47)]
    return [Image.fromarray(rng.integers(0, 256, (height, width, 3), np.uint8)) for width, height in sizes[:n]]
