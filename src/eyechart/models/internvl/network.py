"""The network of InternVL-C and InternVL-G: InternViT, QLLaMA, and the projectors into one space.

Modules and parameters have the names of the folder ``InternVL-14B-224px``; ``names.py`` says what the ``.pth`` file
calls them. A network without query tokens is InternVL-C alone, as in the ``.pth`` file.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from eyechart.errors import ModelError, first_line
from eyechart.models.internvl.blocks import AttentionPool, RmsNorm, TextLayer, VisionLayer, rotary
from eyechart.models.internvl.sizes import Sizes

CROSSED = 96
"""Positions that look at the image. The published code fixes the number, whatever a config says; with fewer query
tokens nothing looks at it."""


class InternVLNetwork(nn.Module):  # type: ignore[misc]  # torch is optional, so untyped
    """Two towers that end in one space."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        vision, text = sizes.vision, sizes.text
        self.vision_model = VisionTower(sizes)
        self.qllama = nn.ModuleDict({"model": TextTower(sizes)})
        self.text_projection = nn.Parameter(torch.empty(text.width, sizes.embedding))
        self.logit_scale = nn.Parameter(torch.empty(()))
        self.clip_projector = AttentionPool(vision.width, sizes.embedding, sizes.pool_heads)
        if sizes.queries:
            self.query_tokens = nn.Parameter(torch.empty(1, sizes.queries, text.width))
            self.clip_projector2 = AttentionPool(text.width, sizes.embedding, sizes.pool_heads)

    def image_c(self, pixels: torch.Tensor) -> torch.Tensor:
        """Return InternVL-C's vector: the pooled states of the vision tower."""
        return self.clip_projector(self.vision_model(pixels))

    def image_g(self, pixels: torch.Tensor) -> torch.Tensor:
        """Return InternVL-G's vector: the sum of two unit vectors, C's and that of the query tokens."""
        seen = self.vision_model(pixels)
        states = self.qllama["model"](self.query_tokens.expand(len(seen), -1, -1), seen=seen)
        return functional.normalize(self.clip_projector(seen), dim=1) + functional.normalize(
            self.clip_projector2(states), dim=1
        )

    def encode_text(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the state where a text ends, in the common space.

        Id 0 is padding and is never looked at. Where a text ends is found by counting the other ids, as published.
        """
        tower = self.qllama["model"]
        read = ids > 0
        before = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool, device=ids.device).tril()
        states = tower(tower.embed_tokens(ids), mask=before & read[:, None, None, :])
        last: torch.Tensor = states[torch.arange(len(ids), device=ids.device), read.sum(dim=1) - 1]
        return last @ self.text_projection


class VisionTower(nn.Module):  # type: ignore[misc]  # torch is optional, so untyped
    """InternViT; its output are all states of the last layer, that of the class token included."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.embeddings = PatchEmbeddings(sizes)
        layers = (VisionLayer(sizes.vision, sizes.qkv_bias, sizes.qk_norm) for _ in range(sizes.vision.layers))
        self.encoder = nn.ModuleDict({"layers": nn.ModuleList(layers)})

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Return the states of all tokens."""
        tokens = self.embeddings(pixels)
        for layer in self.encoder["layers"]:
            tokens = layer(tokens)
        return tokens


class PatchEmbeddings(nn.Module):  # type: ignore[misc]  # torch is optional, so untyped
    """Patches behind a class token, with learned positions."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        width, patch = sizes.vision.width, sizes.patch
        self.class_embedding = nn.Parameter(torch.empty(1, 1, width))
        self.position_embedding = nn.Parameter(torch.empty(1, (sizes.image_size // patch) ** 2 + 1, width))
        self.patch_embedding = nn.Conv2d(sizes.channels, width, patch, stride=patch)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Return the tokens of images."""
        patches = self.patch_embedding(pixels).flatten(2).transpose(1, 2)
        return torch.cat([self.class_embedding.expand(len(patches), -1, -1), patches], dim=1) + self.position_embedding


class TextTower(nn.Module):  # type: ignore[misc]  # torch is optional, so untyped
    """QLLaMA: a LLaMA some of whose layers look at an image."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        text, every = sizes.text, sizes.cross_every
        self.head_width = text.width // text.heads
        self.embed_tokens = nn.Embedding(sizes.words, text.width)
        crossing = [bool(sizes.queries) and number % every == 0 for number in range(text.layers)]
        self.layers = nn.ModuleList(TextLayer(text, sizes.vision.width if crosses else 0) for crosses in crossing)
        self.norm = RmsNorm(text.width, text.eps)

    def forward(
        self, states: torch.Tensor, *, mask: torch.Tensor | None = None, seen: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Run all layers.

        Args:
            states: One for each position.
            mask: Which positions (last axis) each position may look at; None for all.
            seen: The states of the vision tower; None for texts.
        """
        angles = rotary(states, self.head_width)
        crossed = CROSSED if seen is not None and states.shape[1] >= CROSSED else 0
        for layer in self.layers:
            states = layer(states, angles, mask, seen, crossed)
        return self.norm(states)


def empty_network(sizes: Sizes, dtype: torch.dtype) -> InternVLNetwork:
    """Make a network whose weights are memory that nothing was written to: all of them must be filled.

    Raises:
        ModelError: If there is not that much memory.
    """
    with torch.device("meta"):
        network = InternVLNetwork(sizes)
    try:
        network.to(dtype).to_empty(device="cpu").requires_grad_(False)
    except RuntimeError as error:
        size = sum(parameter.nbytes for parameter in network.parameters())
        raise ModelError(
            f"The network takes {size / 1e9:.1f} GB, which this machine does not give ({first_line(error)}).",
            advice="Use --precision fp16 or bf16, which take half of fp32.",
        ) from error
    return network
