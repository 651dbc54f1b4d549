"""What the two forms of checkpoint call the parameters of the one network."""

from __future__ import annotations

import re

FILE_NAMES = {
    "vision_model.embeddings.patch_embedding.": "patch_embed.proj.",
    "vision_model.embeddings.position_embedding": "pos_embed",
    "vision_model.embeddings.class_embedding": "cls_token",
    "vision_model.encoder.layers.": "blocks.",
    "qllama.model.": "transformer.",
    ".ls1": ".ls1.gamma",
    ".ls2": ".ls2.gamma",
}
"""Parts of names: in the folder, where the network has them from, and in the ``.pth`` file."""
WRAPPERS = {"base_model.model.": "", ".base_layer.": ".", ".default.": "."}
"""What the library peft puts into the names of a model that it adds LoRA weights to."""
UNUSED = re.compile(r"(^|\.)rotary_emb\.inv_freq$|^qllama\.lm_head\.|^itm_head\.")
"""Parts of published checkpoints that no vector is made with: what is computed, and heads for other tasks."""
LORA_TARGETS = {
    "vision_model.": ("attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2"),
    "qllama.": (
        *(f"self_attn.{letter}_proj" for letter in "qkvo"),
        *(f"mlp.{name}_proj" for name in ("gate", "down", "up")),
    ),
}
"""The layers that have LoRA weights, where a part has any."""
LORA_ALPHA = 256
"""The published scale of what LoRA adds is this, divided by the rank."""


def in_folder(name: str) -> str:
    """Return what the folder calls a parameter: the network has its names from there."""
    return name


def in_file(name: str) -> str:
    """Return what the ``.pth`` file calls a parameter."""
    for ours, theirs in FILE_NAMES.items():
        name = name.replace(ours, theirs)
    return name


def unwrapped(name: str) -> str:
    """Return the name that a parameter has without peft."""
    for theirs, plain in WRAPPERS.items():
        name = name.replace(theirs, plain)
    return name
