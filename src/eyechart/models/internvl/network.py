"""Building blocks of InternVL's towers, with torch's attention, which selects the fastest kernel of the device."""

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from eyechart.errors import ModelError, first_line
from eyechart.models.internvl.sizes import Sizes, Tower

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
    """RMSNorm in the dtype of its weights, even if autocast lowered that of the input."""

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Normalise the last axis."""
        return super().forward(states.to(self.weight.dtype))


class VisionLayer(nn.Module):  # type: ignore[misc]  # torch is optional, so untyped
    """Pre-norm transformer block with a learned scale on each branch.

    Queries and keys of the attention are normalised over all heads at once.
    """

    def __init__(self, tower: Tower, qkv_bias: bool, qk_norm: bool) -> None:
        super().__init__()
        self.heads = tower.heads
        self.norm1, self.norm2 = RmsNorm(tower.width, tower.eps), RmsNorm(tower.width, tower.eps)
        norms = {name: RmsNorm(tower.width, tower.eps) if qk_norm else nn.Identity() for name in ("q_norm", "k_norm")}
        qkv = nn.Linear(tower.width, 3 * tower.width, bias=qkv_bias)
        self.attn = nn.ModuleDict({"qkv": qkv, **norms, "proj": nn.Linear(tower.width, tower.width)})
        self.mlp = nn.ModuleDict(
            {"fc1": nn.Linear(tower.width, tower.hidden), "fc2": nn.Linear(tower.hidden, tower.width)}
        )
        self.act = activation(tower.activation)
        self.ls1, self.ls2 = nn.Parameter(torch.empty(tower.width)), nn.Parameter(torch.empty(tower.width))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Apply attention, then the MLP."""
        query, key, value = self.attn["qkv"](self.norm1(tokens)).chunk(3, dim=-1)
        seen = _attend(self.attn["q_norm"](query), self.attn["k_norm"](key), value, self.heads)
        tokens = tokens + _scaled(self.attn["proj"](seen), self.ls1)
        return tokens + _scaled(self.mlp["fc2"](self.act(self.mlp["fc1"](self.norm2(tokens)))), self.ls2)


class TextLayer(nn.Module):  # type: ignore[misc]  # torch is optional, so untyped
    """LLaMA's block, with cross-attention to the vision states if ``vision_width`` is not 0."""

    def __init__(self, tower: Tower, vision_width: int) -> None:
        super().__init__()
        self.self_attn = TextAttention(tower)
        self.cross_attn = TextAttention(tower, vision_width) if vision_width else None
        sides = {"gate_proj": (tower.width, tower.hidden), "up_proj": (tower.width, tower.hidden)}
        sides["down_proj"] = tower.hidden, tower.width
        self.mlp = nn.ModuleDict({name: nn.Linear(*side, bias=False) for name, side in sides.items()})
        self.act = activation(tower.activation)
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
        """Apply self-attention, cross-attention for the first ``crossed`` positions, and the gated MLP."""
        states = states + self.self_attn(self.input_layernorm(states), angles=angles, mask=mask)
        if self.cross_attn is not None and crossed:
            first, others = states[:, :crossed], states[:, crossed:]
            states = torch.cat([first + self.cross_attn(first, seen), others], dim=1)
        normed = self.post_attention_layernorm(states)
        gated = self.act(self.mlp["gate_proj"](normed)) * self.mlp["up_proj"](normed)
        return states + self.mlp["down_proj"](gated)


class TextAttention(nn.Module):  # type: ignore[misc]  # torch is optional, so untyped
    """LLaMA's attention with rotary positions; or, with norms of its own, that of query tokens to the vision states."""

    def __init__(self, tower: Tower, vision_width: int = 0) -> None:
        super().__init__()
        self.heads, keys = tower.heads, vision_width or tower.width
        self.q_proj, self.o_proj = (nn.Linear(tower.width, tower.width, bias=False) for _ in range(2))
        self.k_proj, self.v_proj = (nn.Linear(keys, tower.width, bias=False) for _ in range(2))
        if vision_width:
            self.norm1, self.norm2 = RmsNorm(tower.width, tower.eps), RmsNorm(vision_width, tower.eps)

    def forward(self, states: torch.Tensor, seen: torch.Tensor | None = None, **turned: Any) -> torch.Tensor:
        """Attend to ``seen``, or to the states themselves; ``turned`` are angles and mask of `_attend`."""
        keys = states if seen is None else self.norm2(seen)
        query = self.q_proj(states if seen is None else self.norm1(states))
        return self.o_proj(_attend(query, self.k_proj(keys), self.v_proj(keys), self.heads, **turned))


class AttentionPool(nn.Module):  # type: ignore[misc]  # torch is optional, so untyped
    """Attention pooling whose query is the mean of all tokens."""

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
    """Attention with separate projections and biases."""

    def __init__(self, width: int, out: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.q_bias, self.k_bias, self.v_bias = (nn.Parameter(torch.empty(width)) for _ in range(3))
        self.proj = nn.Linear(width, out)

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        """Attend from ``query`` to ``key`` and ``value``."""
        parts = self.q(query) + self.q_bias, self.k(key) + self.k_bias, self.v(value) + self.v_bias
        return self.proj(_attend(*parts, self.heads))


def activation(name: str) -> nn.Module:
    """Return an activation by its name in configs."""
    if name not in ACTIVATIONS:
        known = ", ".join(ACTIVATIONS)
        raise ModelError("Unknown activation: {name!r}.", advice="Known: {names}.", name=name, names=known)
    return ACTIVATIONS[name]()


def rotary(states: torch.Tensor, head_width: int) -> Angles:
    """Return cosine and sine of LLaMA's rotary position angles."""
    steps = torch.arange(0, head_width, 2, dtype=torch.float32, device=states.device) / head_width
    places = torch.arange(states.shape[1], dtype=torch.float32, device=states.device)
    angles = torch.outer(places, ROTARY_BASE**-steps).repeat(1, 2)
    return angles.cos().to(states.dtype), angles.sin().to(states.dtype)


def _attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    heads: int,
    angles: Angles | None = None,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Attend with several heads, after turning queries and keys by rotary angles, if any."""
    query, key, value = (states.unflatten(-1, (heads, -1)).transpose(1, 2) for states in (query, key, value))
    if angles is not None:
        query, key = _turn(query, angles), _turn(key, angles)
    return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask).transpose(1, 2).flatten(2)


def _turn(heads: torch.Tensor, angles: Angles) -> torch.Tensor:
    first, second = heads.chunk(2, dim=-1)
    cosine, sine = angles
    return heads * cosine + torch.cat([-second, first], dim=-1) * sine


def _scaled(branch: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Multiply in float32, since the scales are small."""
    return (branch.float() * scale.float()).to(branch.dtype)


# The network of InternVL-C and InternVL-G: InternViT, QLLaMA, and the projectors into a shared space.
#
# Modules and parameters are named as in the folder ``InternVL-14B-224px``; `checkpoint.FILE_NAMES` maps the names
# of the ``.pth`` file. A network without query tokens is InternVL-C alone, as in the ``.pth`` file.


CROSSED = 96
"""Positions with cross-attention to the image. The published code hard-codes the number, whatever the config; with
fewer query tokens there is no cross-attention."""


class InternVLNetwork(nn.Module):  # type: ignore[misc]  # torch is optional, so untyped
    """Two towers with a shared embedding space."""

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
        """Compute InternVL-C's vector: the pooled states of the vision tower."""
        return self.clip_projector(self.vision_model(pixels))

    def image_g(self, pixels: torch.Tensor) -> torch.Tensor:
        """Compute InternVL-G's vector: the sum of the unit vectors of C and of the query tokens."""
        seen = self.vision_model(pixels)
        states = self.qllama["model"](self.query_tokens.expand(len(seen), -1, -1), seen=seen)
        return functional.normalize(self.clip_projector(seen), dim=1) + functional.normalize(
            self.clip_projector2(states), dim=1
        )

    def encode_text(self, ids: torch.Tensor) -> torch.Tensor:
        """Compute the projected state at the end of a text.

        Id 0 is padding and is masked. The end is found by counting the other ids, as published.
        """
        tower = self.qllama["model"]
        read = ids > 0
        before = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool, device=ids.device).tril()
        states = tower(tower.embed_tokens(ids), mask=before & read[:, None, None, :])
        last: torch.Tensor = states[torch.arange(len(ids), device=ids.device), read.sum(dim=1) - 1]
        return last @ self.text_projection


class VisionTower(nn.Module):  # type: ignore[misc]  # torch is optional, so untyped
    """InternViT; returns all states of the last layer, including that of the class token."""

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
    """Patches after a class token, with learned positions."""

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
    """QLLaMA: a LLaMA in which some layers cross-attend to an image."""

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
        """Run all layers; ``mask`` are the positions that each position may attend to, ``seen`` the vision states."""
        angles = rotary(states, self.head_width)
        crossed = CROSSED if seen is not None and states.shape[1] >= CROSSED else 0
        for layer in self.layers:
            states = layer(states, angles, mask, seen, crossed)
        return self.norm(states)


def empty_network(sizes: Sizes, dtype: torch.dtype) -> InternVLNetwork:
    """Create a network with uninitialised weights, all of which must be filled."""
    with torch.device("meta"):
        network = InternVLNetwork(sizes)
    try:
        network.to(dtype).to_empty(device="cpu").requires_grad_(False)
    except RuntimeError as error:
        size = sum(parameter.nbytes for parameter in network.parameters())
        raise ModelError(
            "The network needs {size:.1f} GB, which cannot be allocated ({reason}).",
            advice="Use {--precision=fp16} or bf16, which need half the memory of fp32.",
            size=size / 1e9,
            reason=first_line(error),
        ) from error
    return network
