"""Where the sizes of an InternVL network are read: in ``config.json``, or off the tensors of a ``.pth`` file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eyechart.errors import ModelError
from eyechart.models.internvl.sizes import Sizes, Tower, checked

if TYPE_CHECKING:
    import torch

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
"""What a config means by a key that it leaves out: the defaults of the published classes."""
FIXED = {"rope_theta": 10000, "rope_scaling": None, "attention_bias": False}
"""Settings of LLaMA that the published network does not have: another value than this one is refused."""
MAY_BE_ZERO = frozenset({"num_query_token", "use_backbone_lora", "use_qllama_lora", "force_image_size"})
HEAD_WIDTH = 128
"""Of the published ``.pth``; no tensor shows how a width is divided."""
LORA_PARTS = {"use_backbone_lora": "vision_model.", "use_qllama_lora": "qllama."}


def sizes_of_config(config: Mapping[str, Any], source: Path) -> Sizes:
    """Read ``config.json``.

    Raises:
        ModelError: If it is no config of InternVL, or says what cannot be.
    """
    for key in ("vision_config", "qllama_config"):
        if not isinstance(config.get(key), Mapping):
            raise ModelError(
                f"{source} is no config of InternVL-14B-224px: it has no {key}.",
                advice="Give the folder InternVL-14B-224px. InternVL's chat models are generators: use them as such.",
            )
    vision = _values(config["vision_config"], VISION, f"{source}, vision_config")
    text = _values(config["qllama_config"], TEXT, f"{source}, qllama_config")
    whole = _values(config, WHOLE, str(source))
    _check_llama(config["qllama_config"], source)
    return checked(
        Sizes(
            vision=_tower(vision, vision["layer_norm_eps"]),
            image_size=whole["force_image_size"] or vision["image_size"],
            patch=vision["patch_size"],
            channels=vision["num_channels"],
            qkv_bias=vision["qkv_bias"],
            qk_norm=vision["qk_normalization"],
            text=_tower(text, text["rms_norm_eps"]),
            words=text["vocab_size"],
            embedding=whole["clip_embed_dim"],
            pool_heads=whole["attn_pool_num_heads"],
            queries=whole["num_query_token"],
            cross_every=whole["cross_attention_frequency"],
            lora=tuple(part for key, part in LORA_PARTS.items() if whole[key]),
        ),
        source,
    )


def sizes_of_state(state: Mapping[str, torch.Tensor], llama: Mapping[str, Any], source: Path, **heads: int) -> Sizes:
    """Read the sizes off the tensors of a ``.pth`` file.

    Args:
        state: The weights, by the file's names.
        llama: ``config.json`` of LLaMA, if it lies beside the tokenizer: it knows heads and epsilon of the text tower.
        source: The file, for messages.
        heads: ``vision_heads``, ``text_heads``, ``pool_heads`` as the user gave them.

    Raises:
        ModelError: If it is no checkpoint of InternVL-C.
    """
    try:
        width, channels, patch, _ = state["patch_embed.proj.weight"].shape
        hidden = state["blocks.0.mlp.fc1.weight"].shape[0]
        words, text_width = state["transformer.embed_tokens.weight"].shape
        text_hidden = state["transformer.layers.0.mlp.gate_proj.weight"].shape[0]
        positions, embedding = state["pos_embed"].shape[1], state["text_projection"].shape[1]
    except (AttributeError, KeyError, IndexError, ValueError) as error:
        raise ModelError(
            f"{source} is no InternVL-C checkpoint: it has no {error}.",
            advice="Give internvl_c_13b_224px.pth, or a name with _hf for a folder.",
        ) from error
    fits = llama.get("hidden_size") == text_width
    text = _values(llama if fits else {}, TEXT, f"{source}, {CONFIG} of its tokenizer")
    text_heads = text["num_attention_heads"] if fits else text_width // HEAD_WIDTH
    return checked(
        Sizes(
            vision=Tower(
                width,
                heads.get("vision_heads", width // HEAD_WIDTH),
                _count(state, "blocks."),
                hidden,
                VISION["hidden_act"],
                VISION["layer_norm_eps"],
            ),
            image_size=patch * math.isqrt(positions - 1),
            patch=patch,
            channels=channels,
            qkv_bias="blocks.0.attn.qkv.bias" in state,
            qk_norm="blocks.0.attn.q_norm.weight" in state,
            text=Tower(
                text_width,
                heads.get("text_heads", text_heads),
                _count(state, "transformer.layers."),
                text_hidden,
                text["hidden_act"],
                text["rms_norm_eps"],
            ),
            words=words,
            embedding=embedding,
            pool_heads=heads.get("pool_heads", WHOLE["attn_pool_num_heads"]),
            lora=tuple(
                part
                for part, name in (("vision_model.", "blocks."), ("qllama.", "transformer."))
                if any(key.startswith(name) and ".lora_" in key for key in state)
            ),
        ),
        source,
    )


def _tower(values: Mapping[str, Any], eps: float) -> Tower:
    return Tower(
        values["hidden_size"],
        values["num_attention_heads"],
        values["num_hidden_layers"],
        values["intermediate_size"],
        values["hidden_act"],
        eps,
    )


def _values(config: Mapping[str, Any], defaults: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Take the keys that count, each of the kind that its default is of."""
    values = {}
    for key, default in defaults.items():
        value = default if config.get(key) is None else config[key]
        kinds = (int, float) if isinstance(default, float) else (type(default),)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise ModelError(f"{where}: {key} cannot be {value!r}.", advice="Copy or download the config again.")
        if not isinstance(value, bool | str) and (value < 0 or (value == 0 and key not in MAY_BE_ZERO)):
            raise ModelError(f"{where}: {key} must be above 0, not {value}.")
        values[key] = value
    return values


def _check_llama(config: Mapping[str, Any], source: Path) -> None:
    wanted = FIXED | {"num_key_value_heads": config.get("num_attention_heads", TEXT["num_attention_heads"])}
    for key, value in wanted.items():
        if config.get(key, value) not in (value, None):
            raise ModelError(
                f"{source}, qllama_config: {key} is {config[key]!r}, but QLLaMA as published has {value!r} only."
            )


def _count(state: Mapping[str, torch.Tensor], prefix: str) -> int:
    """Count numbered modules."""
    numbers = (name.removeprefix(prefix).partition(".")[0] for name in state if name.startswith(prefix))
    return 1 + max(int(number) for number in numbers if number.isdigit())
