"""The sizes of an InternVL network."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eyechart.errors import ModelError
from eyechart.messages import UserMessage

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Tower:
    """A stack of transformer blocks."""

    width: int
    heads: int
    layers: int
    hidden: int
    activation: str
    eps: float


@dataclass(frozen=True)
class Sizes:
    """The hyperparameters of the network."""

    vision: Tower
    image_size: int
    patch: int
    channels: int
    qkv_bias: bool
    qk_norm: bool
    text: Tower
    words: int
    embedding: int
    pool_heads: int
    queries: int = 0
    """Query tokens of InternVL-G; 0 for InternVL-C alone."""
    cross_every: int = 0
    lora: tuple[str, ...] = ()
    """Name prefixes of the parts with LoRA weights."""


def checked(sizes: Sizes, source: Path) -> Sizes:
    """Return the sizes if they are consistent."""
    divided = [
        ("vision", sizes.vision.width, sizes.vision.heads),
        ("text", sizes.text.width, sizes.text.heads),
        ("pool", sizes.vision.width, sizes.pool_heads),
        *([("pool of InternVL-G", sizes.text.width, sizes.pool_heads)] if sizes.queries else []),
    ]
    for part, width, heads in divided:
        if heads < 1 or width % heads:
            advice = UserMessage(
                "A .pth file does not contain the number of heads: pass it with "
                "{--model_option=vision_heads=N} text_heads=N pool_heads=N."
            )
            raise ModelError(
                "{source}: the width {width} is not divisible by {heads} heads ({part}).",
                advice="Check that config.json belongs to these weights." if sizes.cross_every else advice,
                source=source,
                width=width,
                heads=heads,
                part=part,
            )
    if sizes.text.width // sizes.text.heads % 2:
        raise ModelError(
            "{source}: rotary positions need an even head width, not {width}.",
            source=source,
            width=sizes.text.width // sizes.text.heads,
        )
    if sizes.image_size < sizes.patch:
        raise ModelError(
            "{source}: images of {image_size} pixels are smaller than one patch ({patch}).",
            source=source,
            image_size=sizes.image_size,
            patch=sizes.patch,
        )
    return sizes


CONFIG = "config.json"
VISION: dict[str, Any] = {
    "hidden_size": 3200, "num_attention_heads": 25, "num_hidden_layers": 48, "intermediate_size": 12800,
    "image_size": 224, "patch_size": 14, "num_channels": 3, "qkv_bias": False, "qk_normalization": True,
    "hidden_act": "gelu", "layer_norm_eps": 1e-6,
}  # fmt: skip
TEXT: dict[str, Any] = {
    "vocab_size": 32000, "hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 32,
    "intermediate_size": 11008, "hidden_act": "silu", "rms_norm_eps": 1e-6,
}  # fmt: skip
WHOLE: dict[str, Any] = {
    "clip_embed_dim": 768, "attn_pool_num_heads": 16, "num_query_token": 96, "cross_attention_frequency": 2,
    "use_backbone_lora": 0, "use_qllama_lora": 0, "force_image_size": 0,
}  # fmt: skip
"""Defaults of the published classes for keys that a config omits."""
TOWER = ("hidden_size", "num_attention_heads", "num_hidden_layers", "intermediate_size", "hidden_act")
"""Keys of the fields of `Tower`, except for epsilon."""
FIXED = {"rope_theta": 10000, "rope_scaling": None, "attention_bias": False}
"""LLaMA settings fixed in the published network; other values are refused."""
MAY_BE_ZERO = frozenset({"num_query_token", "use_backbone_lora", "use_qllama_lora", "force_image_size"})
HEAD_WIDTH = 128
"""Head width of the published ``.pth``, which no tensor shape reveals."""
LORA_PARTS = {"use_backbone_lora": "vision_model.", "use_qllama_lora": "qllama."}


def sizes_of_config(config: Mapping[str, Any], source: Path) -> Sizes:
    """Read ``config.json``."""
    for key in ("vision_config", "qllama_config"):
        if not isinstance(config.get(key), Mapping):
            raise ModelError(
                "{source} is not a config of InternVL-14B-224px: {key} is missing.",
                advice="Pass the folder InternVL-14B-224px. InternVL's chat models are generators, not encoders.",
                source=source,
                key=key,
            )
    vision = _values(config["vision_config"], VISION, f"{source}, vision_config")
    text = _values(config["qllama_config"], TEXT, f"{source}, qllama_config")
    whole = _values(config, WHOLE, str(source))
    llama = config["qllama_config"]
    for key, value in {**FIXED, "num_key_value_heads": text["num_attention_heads"]}.items():
        if llama.get(key, value) not in (value, None):
            raise ModelError(
                "{source}, qllama_config: {key} is {config!r}, but the published QLLaMA only supports {value!r}.",
                source=source,
                key=key,
                config=llama[key],
                value=value,
            )
    return _sizes(vision, text, whole)


def _sizes(vision: Mapping[str, Any], text: Mapping[str, Any], whole: Mapping[str, Any]) -> Sizes:
    return Sizes(
        vision=Tower(*(vision[key] for key in (*TOWER, "layer_norm_eps"))),
        image_size=whole["force_image_size"] or vision["image_size"],
        patch=vision["patch_size"],
        channels=vision["num_channels"],
        qkv_bias=vision["qkv_bias"],
        qk_norm=vision["qk_normalization"],
        text=Tower(*(text[key] for key in (*TOWER, "rms_norm_eps"))),
        words=text["vocab_size"],
        embedding=whole["clip_embed_dim"],
        pool_heads=whole["attn_pool_num_heads"],
        queries=whole["num_query_token"],
        cross_every=whole["cross_attention_frequency"],
        lora=tuple(part for key, part in LORA_PARTS.items() if whole[key]),
    )


def sizes_of_state(state: Mapping[str, torch.Tensor], llama: Mapping[str, Any], source: Path, **heads: int) -> Sizes:
    """Infer the sizes from the tensors of a ``.pth`` file.

    ``llama`` is the ``config.json`` of LLaMA, if found next to the tokenizer, for heads and epsilon of the text tower;
    ``heads`` are ``vision_heads``, ``text_heads`` and ``pool_heads`` if given by the user.
    """
    try:
        width, channels, patch, _ = state["patch_embed.proj.weight"].shape
        hidden = state["blocks.0.mlp.fc1.weight"].shape[0]
        words, text_width = state["transformer.embed_tokens.weight"].shape
        text_hidden = state["transformer.layers.0.mlp.gate_proj.weight"].shape[0]
        positions, embedding = state["pos_embed"].shape[1], state["text_projection"].shape[1]
    except (AttributeError, KeyError, IndexError, ValueError) as error:
        raise ModelError(
            "{source} is not an InternVL-C checkpoint: {reason} is missing.",
            advice="Pass internvl_c_13b_224px.pth, or use a name with _hf for a folder.",
            source=source,
            reason=error,
        ) from error
    fits = llama.get("hidden_size") == text_width
    text = _values(llama if fits else {}, TEXT, f"{source}, {CONFIG} of its tokenizer")
    text_heads = text["num_attention_heads"] if fits else text_width // HEAD_WIDTH
    vision_tower = (width, heads.get("vision_heads", width // HEAD_WIDTH), _count(state, "blocks."), hidden)
    text_tower = (text_width, heads.get("text_heads", text_heads), _count(state, "transformer.layers."), text_hidden)
    image = {"image_size": patch * math.isqrt(positions - 1), "patch_size": patch, "num_channels": channels}
    image |= {"qkv_bias": "blocks.0.attn.qkv.bias" in state, "qk_normalization": "blocks.0.attn.q_norm.weight" in state}
    whole = {"clip_embed_dim": embedding, "num_query_token": 0, "cross_attention_frequency": 0}
    whole["attn_pool_num_heads"] = heads.get("pool_heads", WHOLE["attn_pool_num_heads"])
    for key, prefix in zip(LORA_PARTS, ("blocks.", "transformer."), strict=True):
        whole[key] = any(name.startswith(prefix) and ".lora_" in name for name in state)
    return _sizes(
        VISION | dict(zip(TOWER, vision_tower, strict=False)) | image,
        text | dict(zip(TOWER, text_tower, strict=False)) | {"vocab_size": words},
        WHOLE | whole,
    )


def _values(config: Mapping[str, Any], defaults: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Select the relevant keys and check that each value has the type of its default."""
    values = {}
    for key, default in defaults.items():
        value = default if config.get(key) is None else config[key]
        kinds = (int, float) if isinstance(default, float) else (type(default),)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise ModelError(
                "{path}: invalid value of {name}: {value!r}.",
                advice="Copy or download the config again.",
                path=where,
                name=key,
                value=value,
            )
        if not isinstance(value, bool | str) and (value < 0 or (value == 0 and key not in MAY_BE_ZERO)):
            raise ModelError("{where}: {key} must be positive, not {value}.", where=where, key=key, value=value)
        values[key] = value
    return values


def _count(state: Mapping[str, torch.Tensor], prefix: str) -> int:
    numbers = (name.removeprefix(prefix).partition(".")[0] for name in state if name.startswith(prefix))
    return 1 + max(int(number) for number in numbers if number.isdigit())
