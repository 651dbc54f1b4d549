"""The blocks of InternVL's towers. Attention is torch's own, which takes the fastest kernel that a device has."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from eyechart.errors import ModelError
from eyechart.models.internvl.sizes import Tower

POOL_EPS = 1e-5
ROTARY_BASE = 10000.0
ACTIVATIONS = {
    "gelu": nn.GELU,
    "gelu_new": lambda: nn.GELU("tanh"),
    "gelu_pytorch_tanh": lambda: nn.GELU("tanh"),
    "relu": nn.ReLU,
    "silu": nn.SiLU,
    "swish": nn.SiLU,
}

Angles = tuple[torch.Tensor, torch.Tensor]


class RmsNorm(nn.RMSNorm):  # type: ignore[misc]  # torch is optional, so untyped
    """Normalises in the type of its weights, also where autocast made the input smaller."""

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Normalise the last axis."""
        return super().forward(states.to(self.weight.dtype))


class VisionLayer(nn.Module):  # type: ignore[misc]  # torch is optional, so untyped
    """Pre-norm transformer block with a learned scale on each branch."""

    def __init__(self, tower: Tower, qkv_bias: bool, qk_norm: bool) -> None:
        super().__init__()
        self.norm1, self.norm2 = RmsNorm(tower.width, tower.eps), RmsNorm(tower.width, tower.eps)
        self.attn = VisionAttention(tower, qkv_bias, qk_norm)
        self.mlp = nn.ModuleDict(
            {"fc1": nn.Linear(tower.width, tower.hidden), "fc2": nn.Linear(tower.hidden, tower.width)}
        )
        self.act = activation(tower.activation)
        self.ls1, self.ls2 = nn.Parameter(torch.empty(tower.width)), nn.Parameter(torch.empty(tower.width))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Attend, then think."""
        tokens = tokens + _scaled(self.attn(self.norm1(tokens)), self.ls1)
        return tokens + _scaled(self.mlp["fc2"](self.act(self.mlp["fc1"](self.norm2(tokens)))), self.ls2)


class VisionAttention(nn.Module):  # type: ignore[misc]  # torch is optional, so untyped
    """Attention whose queries and keys are normalised over all heads at once."""

    def __init__(self, tower: Tower, qkv_bias: bool, qk_norm: bool) -> None:
        super().__init__()
        self.heads = tower.heads
        self.qkv = nn.Linear(tower.width, 3 * tower.width, bias=qkv_bias)
        self.q_norm, self.k_norm = (RmsNorm(tower.width, tower.eps) if qk_norm else nn.Identity() for _ in range(2))
        self.proj = nn.Linear(tower.width, tower.width)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Attend to all tokens."""
        query, key, value = self.qkv(tokens).chunk(3, dim=-1)
        heads = (_split(part, self.heads) for part in (self.q_norm(query), self.k_norm(key), value))
        return self.proj(_join(functional.scaled_dot_product_attention(*heads)))


class TextLayer(nn.Module):  # type: ignore[misc]  # torch is optional, so untyped
    """LLaMA's block; with an attention to the vision states in the middle, if ``vision_width`` is not 0."""

    def __init__(self, tower: Tower, vision_width: int) -> None:
        super().__init__()
        self.self_attn = TextAttention(tower)
        self.cross_attn = ImageAttention(tower, vision_width) if vision_width else None
        self.mlp = GatedMlp(tower)
        self.input_layernorm = RmsNorm(tower.width, tower.eps)
        self.post_attention_layernorm = RmsNorm(tower.width, tower.eps)

    def forward(
        self,
        states: torch.Tensor,
        angles: Angles,
        mask: torch.Tensor | None,
        seen: torch.Tensor | None,
        crossed: int,
    ) -> torch.Tensor:
        """Attend, look at the image with the first ``crossed`` positions, think."""
        states = states + self.self_attn(self.input_layernorm(states), angles, mask)
        if self.cross_attn is not None and crossed:
            first, others = states[:, :crossed], states[:, crossed:]
            states = torch.cat([first + self.cross_attn(first, seen), others], dim=1)
        return states + self.mlp(self.post_attention_layernorm(states))


class TextAttention(nn.Module):  # type: ignore[misc]  # torch is optional, so untyped
    """LLaMA's attention with rotary positions."""

    def __init__(self, tower: Tower) -> None:
        super().__init__()
        self.heads = tower.heads
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (
            nn.Linear(tower.width, tower.width, bias=False) for _ in range(4)
        )

    def forward(self, states: torch.Tensor, angles: Angles, mask: torch.Tensor | None) -> torch.Tensor:
        """Attend to the positions that the mask leaves."""
        query, key, value = (_split(proj(states), self.heads) for proj in (self.q_proj, self.k_proj, self.v_proj))
        turned = _turn(query, angles), _turn(key, angles)
        return self.o_proj(_join(functional.scaled_dot_product_attention(*turned, value, attn_mask=mask)))


class ImageAttention(nn.Module):  # type: ignore[misc]  # torch is optional, so untyped
    """Attention of query tokens to the vision states: own norms for both, no positions, no mask."""

    def __init__(self, tower: Tower, vision_width: int) -> None:
        super().__init__()
        self.heads = tower.heads
        self.q_proj, self.o_proj = (nn.Linear(tower.width, tower.width, bias=False) for _ in range(2))
        self.k_proj, self.v_proj = (nn.Linear(vision_width, tower.width, bias=False) for _ in range(2))
        self.norm1, self.norm2 = RmsNorm(tower.width, tower.eps), RmsNorm(vision_width, tower.eps)

    def forward(self, states: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        """Look at the image."""
        query, image = self.q_proj(self.norm1(states)), self.norm2(seen)
        heads = (_split(part, self.heads) for part in (query, self.k_proj(image), self.v_proj(image)))
        return self.o_proj(_join(functional.scaled_dot_product_attention(*heads)))


class GatedMlp(nn.Module):  # type: ignore[misc]  # torch is optional, so untyped
    """LLaMA's gated feed-forward part."""

    def __init__(self, tower: Tower) -> None:
        super().__init__()
        self.gate_proj, self.up_proj = (nn.Linear(tower.width, tower.hidden, bias=False) for _ in range(2))
        self.down_proj = nn.Linear(tower.hidden, tower.width, bias=False)
        self.act = activation(tower.activation)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Think."""
        return self.down_proj(self.act(self.gate_proj(states)) * self.up_proj(states))


class AttentionPool(nn.Module):  # type: ignore[misc]  # torch is optional, so untyped
    """One query, the mean of all tokens, looks at all tokens."""

    def __init__(self, width: int, out: int, heads: int) -> None:
        super().__init__()
        self.norm1_q, self.norm1_k, self.norm1_v = (nn.LayerNorm(width, POOL_EPS) for _ in range(3))
        self.cross_attn = PoolAttention(width, out, heads)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return one vector for each row."""
        query = self.norm1_q(tokens.mean(dim=1, keepdim=True))
        pooled: torch.Tensor = self.cross_attn(query, self.norm1_k(tokens), self.norm1_v(tokens))
        return pooled.squeeze(1)


class PoolAttention(nn.Module):  # type: ignore[misc]  # torch is optional, so untyped
    """Attention with separate projections, whose biases are parameters of their own."""

    def __init__(self, width: int, out: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.q_bias, self.k_bias, self.v_bias = (nn.Parameter(torch.empty(width)) for _ in range(3))
        self.proj = nn.Linear(width, out)

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        """Look for ``query`` among ``key``, and take ``value``."""
        parts = self.q(query) + self.q_bias, self.k(key) + self.k_bias, self.v(value) + self.v_bias
        heads = (_split(part, self.heads) for part in parts)
        return self.proj(_join(functional.scaled_dot_product_attention(*heads)))


def activation(name: str) -> nn.Module:
    """Return an activation by the name that configs give it."""
    if name not in ACTIVATIONS:
        raise ModelError(f"The activation {name!r} is not known here.", advice=f"Known: {', '.join(ACTIVATIONS)}.")
    return ACTIVATIONS[name]()


def rotary(states: torch.Tensor, head_width: int) -> Angles:
    """Return cosine and sine of the angles by which LLaMA turns each position: computed, never stored."""
    steps = torch.arange(0, head_width, 2, dtype=torch.float32, device=states.device) / head_width
    places = torch.arange(states.shape[1], dtype=torch.float32, device=states.device)
    angles = torch.outer(places, ROTARY_BASE**-steps).repeat(1, 2)
    return angles.cos().to(states.dtype), angles.sin().to(states.dtype)


def _turn(heads: torch.Tensor, angles: Angles) -> torch.Tensor:
    first, second = heads.chunk(2, dim=-1)
    cosine, sine = angles
    return heads * cosine + torch.cat([-second, first], dim=-1) * sine


def _split(states: torch.Tensor, heads: int) -> torch.Tensor:
    return states.unflatten(-1, (heads, -1)).transpose(1, 2)


def _join(heads: torch.Tensor) -> torch.Tensor:
    return heads.transpose(1, 2).flatten(2)


def _scaled(branch: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Multiply in float32: the scales are small."""
    return (branch.float() * scale.float()).to(branch.dtype)
