"""The sizes of an InternVL network."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from eyechart.errors import ModelError


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
    """All that the network needs to know besides its weights."""

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
    """Query tokens, with all that makes of InternVL-C InternVL-G; 0 is a network without."""
    cross_every: int = 0
    lora: tuple[str, ...] = ()
    """How the names begin of the parts that have LoRA weights beside their own."""


def checked(sizes: Sizes, source: Path) -> Sizes:
    """Return the sizes if a network can have them.

    Raises:
        ModelError: If they contradict each other.
    """
    divided = {
        "vision": (sizes.vision.width, sizes.vision.heads),
        "text": (sizes.text.width, sizes.text.heads),
        "pool": (sizes.vision.width, sizes.pool_heads),
        **({"pool of InternVL-G": (sizes.text.width, sizes.pool_heads)} if sizes.queries else {}),
    }
    for part, (width, heads) in divided.items():
        if heads < 1 or width % heads:
            raise ModelError(
                f"{source}: a width of {width} cannot be divided into {heads} heads ({part}).",
                advice="A .pth file does not say how many heads it has: give them with --model_option vision_heads=N "
                "text_heads=N pool_heads=N."
                if not sizes.cross_every
                else "Is this config.json of these weights?",
            )
    if sizes.text.width // sizes.text.heads % 2:
        raise ModelError(
            f"{source}: heads of {sizes.text.width // sizes.text.heads} numbers cannot be turned in pairs."
        )
    if sizes.image_size < sizes.patch:
        raise ModelError(f"{source}: images of {sizes.image_size} pixels are smaller than one patch ({sizes.patch}).")
    return sizes
