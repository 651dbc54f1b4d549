"""The network behind ``internvl_c_13b_224px.pth``: InternViT with attention pooling, LLaMA with a projection.

The names of modules and parameters are those of the checkpoint. All sizes are read from its tensors, except the
numbers of attention heads, which no tensor shows: vision and text heads are 128 wide, the pooling has 16.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Mapping

HEAD_WIDTH = 128
POOL_HEADS = 16
BLOCK_EPS, POOL_EPS = 1e-6, 1e-5
START_SCALE = math.log(1 / 0.07)


def build(state: Mapping[str, torch.Tensor]) -> InternVLC:
    """Make the network for a checkpoint without memory for its weights: they are assigned afterwards."""
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    with torch.device("meta"):
        network = InternVLC(state)
    # The rotation angles are computed, not stored.
    network.transformer.rotary_emb = LlamaRotaryEmbedding(network.transformer.config)
    return network


class InternVLC(nn.Module):  # type: ignore[misc]  # torch is optional, so untyped
    """Two towers that end in one space."""

    def __init__(self, state: Mapping[str, torch.Tensor]) -> None:
        super().__init__()
        width, channels, patch, _ = state["patch_embed.proj.weight"].shape
        self.patch_embed = nn.ModuleDict({"proj": nn.Conv2d(channels, width, patch, stride=patch)})
        self.cls_token = nn.Parameter(torch.empty(1, 1, width))
        self.pos_embed = nn.Parameter(torch.empty(state["pos_embed"].shape))
        hidden = state["blocks.0.mlp.fc1.weight"].shape[0]
        self.blocks = nn.ModuleList(Block(width, hidden) for _ in range(_count(state, "blocks")))
        self.clip_projector = AttentionPool(width, state["clip_projector.cross_attn.proj.weight"].shape[0])
        self.transformer = _text_tower(state)
        self.text_projection = nn.Parameter(torch.empty(state["text_projection"].shape))
        self.logit_scale = nn.Parameter(torch.tensor(START_SCALE))
        self.image_size = patch * math.isqrt(state["pos_embed"].shape[1] - 1)

    def encode_image(self, pixels: torch.Tensor) -> torch.Tensor:
        """See images: every token of the last layer is pooled."""
        tokens = self.patch_embed["proj"](pixels).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.cls_token.expand(len(tokens), -1, -1), tokens], dim=1) + self.pos_embed
        for block in self.blocks:
            tokens = block(tokens)
        return self.clip_projector(tokens)

    def encode_text(self, ids: torch.Tensor) -> torch.Tensor:
        """Read texts: the vector is where the last token that is not 0 stands."""
        mask = ids > 0
        hidden = self.transformer(input_ids=ids, attention_mask=mask.long()).last_hidden_state
        last: torch.Tensor = hidden[torch.arange(len(ids), device=ids.device), mask.sum(dim=1) - 1]
        return last @ self.text_projection


class Block(nn.Module):  # type: ignore[misc]  # torch is optional, so untyped
    """Pre-norm transformer block with normalised queries and keys and a learned scale on each branch."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(width, BLOCK_EPS), nn.RMSNorm(width, BLOCK_EPS)
        self.attn = SelfAttention(width)
        self.mlp = nn.ModuleDict({"fc1": nn.Linear(width, hidden), "fc2": nn.Linear(hidden, width)})
        self.ls1, self.ls2 = (nn.ParameterDict({"gamma": torch.empty(width)}) for _ in range(2))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Attend, then think; the branches are scaled in float32."""
        tokens = tokens + _scaled(self.attn(self.norm1(tokens)), self.ls1["gamma"])
        thought = self.mlp["fc2"](functional.gelu(self.mlp["fc1"](self.norm2(tokens))))
        return tokens + _scaled(thought, self.ls2["gamma"])


class SelfAttention(nn.Module):  # type: ignore[misc]  # torch is optional, so untyped
    """Attention whose queries and keys are normalised over all heads at once."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.heads = width // HEAD_WIDTH
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.q_norm, self.k_norm = nn.RMSNorm(width, BLOCK_EPS), nn.RMSNorm(width, BLOCK_EPS)
        self.proj = nn.Linear(width, width)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Attend to all tokens."""
        query, key, value = self.qkv(tokens).chunk(3, dim=-1)
        seen = _attend(self.q_norm(query), self.k_norm(key), value, self.heads)
        return self.proj(seen)


class AttentionPool(nn.Module):  # type: ignore[misc]  # torch is optional, so untyped
    """One query, the mean of all tokens, asks all tokens."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        self.norm1_q, self.norm1_k, self.norm1_v = (nn.LayerNorm(width, POOL_EPS) for _ in range(3))
        self.cross_attn = CrossAttention(width, out)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return one vector per image."""
        query = self.norm1_q(tokens.mean(dim=1, keepdim=True))
        pooled: torch.Tensor = self.cross_attn(query, self.norm1_k(tokens), self.norm1_v(tokens))
        return pooled.squeeze(1)


class CrossAttention(nn.Module):  # type: ignore[misc]  # torch is optional, so untyped
    """Attention with separate projections, whose biases are parameters of their own."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.q_bias, self.k_bias, self.v_bias = (nn.Parameter(torch.empty(width)) for _ in range(3))
        self.proj = nn.Linear(width, out)

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        """Ask ``value`` by ``key``."""
        seen = _attend(self.q(query) + self.q_bias, self.k(key) + self.k_bias, self.v(value) + self.v_bias, POOL_HEADS)
        return self.proj(seen)


def _attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, heads: int) -> torch.Tensor:
    split = (part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in (query, key, value))
    return functional.scaled_dot_product_attention(*split).transpose(1, 2).flatten(2)


def _scaled(branch: torch.Tensor, gamma: torch.Tensor) -> torch.Tensor:
    return (branch.float() * gamma.float()).to(branch.dtype)


def _text_tower(state: Mapping[str, torch.Tensor]) -> Any:
    from transformers import LlamaConfig, LlamaModel

    words, width = state["transformer.embed_tokens.weight"].shape
    config = LlamaConfig(
        vocab_size=words,
        hidden_size=width,
        intermediate_size=state["transformer.layers.0.mlp.gate_proj.weight"].shape[0],
        num_hidden_layers=_count(state, "transformer.layers"),
        num_attention_heads=width // HEAD_WIDTH,
        max_position_embeddings=2048,
        rms_norm_eps=1e-6,
        pad_token_id=0,
    )
    return LlamaModel(config)


def _count(state: Mapping[str, torch.Tensor], prefix: str) -> int:
    """Count numbered modules."""
    depth = prefix.count(".") + 1
    return 1 + max(int(name.split(".")[depth]) for name in state if name.startswith(f"{prefix}."))
