"""Faster towers of open_clip models: the same vectors with less work.

``strip_padding``
    A text tower with a causal mask that pools at the end token never attends to the padding after it: most of 77
    positions for a prompt of ten tokens.
``last_block``
    A tower that pools one position (the class token of an image, the end token of a text) needs the other positions of
    its last block as keys and values only.
``onednn_weights``
    A linear layer of torch reorders its weights for oneDNN in every call. Reordered once, the same products take a
    sixth less time.

Each change is verified. When a model is loaded, each tower runs once unchanged and once with each further change, which
is undone if the vectors differ by more than `TOLERANCE`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    import torch

TOLERANCE = 1e-5
"""Largest difference between unit vectors of the plain and the faster pass; rounding alone gives about 1e-7."""
POOL_POSITIONS: ContextVar[torch.Tensor | None] = ContextVar("POOL_POSITIONS", default=None)
"""The pooled position of each row of a batch; None for the first, which is then returned alone."""
ONEDNN = "onednn_weights"
MAX_ONEDNN_BYTES = 4 * 2**30
"""Size limit of reordered weights of a tower: both layouts exist temporarily."""
PROBES = ("a", "two red cups left of a very small, rather old and quite expensive wooden table!?")
IMAGES = 2
"""Noise images for comparing image towers."""
UNSUITABLE = (RuntimeError, ValueError, IndexError, AttributeError)
"""Errors of a tower that is incompatible with a change."""

Encode = Callable[[], "torch.Tensor"]
Tokenize = Callable[[list[str]], "torch.Tensor"]


Change = tuple[str, Callable[[], Iterable[Any]], Any]
"""A name, the modules of a tower that it changes, and the function that makes their faster ``forward``."""


def speed_up(model: Any, tokenizer: Tokenize, *, onednn: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Apply every change that preserves the vectors of an open_clip model on its device and in its precision.

    ``onednn`` allows to reorder weights: for float32 on a CPU. Returns the names of the changes of both towers.
    """
    import torch

    image: tuple[str, ...] = ()
    size = getattr(model.visual, "image_size", None)
    if size is not None:
        weight = next(model.visual.parameters())
        sides = size if isinstance(size, tuple | list) else (size, size)
        noise = torch.randn(IMAGES, 3, *sides, generator=torch.Generator().manual_seed(0))
        encode = partial(model.encode_image, noise.to(weight.device, weight.dtype))
        image = _apply(_changes(getattr(model.visual, "transformer", None), onednn=onednn), encode, encode)
    tower = _text_tower(model)
    if tower is None:
        return image, ()
    tokens = tokenizer(list(PROBES)).to(next(model.parameters()).device)
    whole, stripped = partial(model.encode_text, tokens), partial(encode_stripped, model, strip_padding(tokens))
    text = _apply([("strip_padding", tuple, None)], whole, stripped)  # a flag: the model itself is not changed
    if text:  # the last block computes one position of stripped texts
        text += _apply(_changes(getattr(tower[1], "transformer", None), onednn=onednn), whole, stripped)
    return image, text


def _apply(changes: Sequence[Change], plain: Encode, faster: Encode) -> tuple[str, ...]:
    """Apply the changes, one after the other, with which ``faster`` gives the vectors of ``plain``; undo others."""
    import torch
    from torch.nn.functional import normalize

    if not changes:
        return ()
    kept: dict[str, list[Any]] = {}
    with torch.inference_mode():
        expected = normalize(plain().float(), dim=-1)
        for change, modules, forward in changes:
            replaced = list(modules())
            try:
                for module in replaced:
                    module.forward = forward(module)
                found = normalize(faster().float(), dim=-1)
                same = found.shape == expected.shape and bool((found - expected).abs().max() <= TOLERANCE)
            except UNSUITABLE:
                same = False
            kept |= {change: replaced} if same else {}
            for module in () if same else replaced:
                module.__dict__.pop("forward", None)
    for owner, name in (weight for module in kept.get(ONEDNN, ()) for weight in _weights_of(module)):
        # Free the original weights; an empty tensor of the same dtype remains for callers that query it.
        setattr(owner, name, torch.nn.Parameter(getattr(owner, name).new_empty(0), requires_grad=False))
    return tuple(kept)


def _changes(transformer: Any, *, onednn: bool) -> list[Change]:
    """List the changes applicable to a stack of standard blocks."""
    import torch
    from open_clip.transformer import ResidualAttentionBlock

    blocks = list(getattr(transformer, "resblocks", ()))
    plain = [block for block in blocks if isinstance(block, ResidualAttentionBlock)]

    def products() -> Iterator[Any]:
        for block in plain:
            yield from (layer for layer in block.mlp if type(layer) is torch.nn.Linear)
            # In a last block that computes one position, query and key differ.
            short = isinstance(block.__dict__.get("forward"), LastTokenBlock)
            if type(block.attn) is torch.nn.MultiheadAttention and block.attn.batch_first and not short:
                yield block.attn

    found: list[Change] = []
    if plain and blocks[-1] is plain[-1]:
        found.append(("last_block", lambda: blocks[-1:], LastTokenBlock))
    size = sum(getattr(owner, name).nbytes for module in products() for owner, name in _weights_of(module))
    if onednn and torch.backends.mkldnn.is_available() and 0 < size <= MAX_ONEDNN_BYTES:
        found.append((ONEDNN, products, _onednn_forward))
    return found


def strip_padding(tokens: torch.Tensor) -> torch.Tensor:
    """Remove the padding, zeros, after the longest text of a batch."""
    # Not a count of non-zero tokens: 0 is also a word piece (an exclamation mark) in some vocabularies.
    length = int((tokens != 0).any(dim=0).nonzero().max()) + 1 if tokens.any() else 1
    return tokens[:, :length]


def encode_stripped(model: Any, tokens: torch.Tensor) -> torch.Tensor:
    """Run the library's forward pass on the result of `strip_padding`, with as many positions as there are tokens.

    The model is modified during the call, so threads must not share it.
    """
    import torch
    from torch.func import functional_call

    class Text(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return self.model.encode_text(tokens)

    prefix, tower = _text_tower(model) or ("", model)
    length = tokens.shape[1]
    shorter = {
        f"model.{prefix}positional_embedding": tower.positional_embedding[:length],
        f"model.{prefix}attn_mask": tower.attn_mask[:length, :length],
    }
    before = POOL_POSITIONS.set(tokens.argmax(dim=-1))
    try:
        encoded: torch.Tensor = functional_call(Text(), shorter, (tokens,))
    finally:
        POOL_POSITIONS.reset(before)
    return encoded


def _text_tower(model: Any) -> tuple[str, Any] | None:
    """Find the module with the position embedding and the mask, the location of which depends on the class."""
    for prefix, tower in (("", model), ("text.", getattr(model, "text", None))):
        positions, mask = getattr(tower, "positional_embedding", None), getattr(tower, "attn_mask", None)
        if positions is not None and mask is not None and positions.shape[0] == mask.shape[0]:
            return prefix, tower
    return None


class LastTokenBlock:
    """Replacement of the ``forward`` of a tower's last block, which computes only the pooled position."""

    def __init__(self, block: Any) -> None:
        self.block = block

    def __call__(self, x: Any, k_x: Any = None, v_x: Any = None, attn_mask: Any = None) -> torch.Tensor:
        """Compute the block for one position of each row."""
        import torch

        block = self.block
        if k_x is not None or v_x is not None:
            raise ValueError("Only self-attention is supported.")
        rows = torch.arange(len(x), device=x.device)
        pooled = POOL_POSITIONS.get()
        positions = torch.zeros_like(rows) if pooled is None else pooled.to(x.device)
        normed = block.ln_1(x)
        mask = None
        if attn_mask is not None:
            if attn_mask.dim() != 2:
                raise ValueError("Only a mask that is the same for all rows is supported.")
            # The mask row of each position, repeated per head, as torch's attention expects.
            mask = attn_mask.to(x.dtype)[positions][:, None].repeat_interleave(block.attn.num_heads, dim=0)
        seen, _ = block.attn(normed[rows, positions][:, None], normed, normed, need_weights=False, attn_mask=mask)
        one = x[rows, positions][:, None] + block.ls_1(seen)
        one = one + block.ls_2(block.mlp(block.ln_2(one)))
        if pooled is None:
            return one
        whole = torch.zeros_like(x)
        whole[rows, positions] = one[:, 0]
        return whole


class OnednnLinear:
    """Replacement of a linear layer's ``forward``."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        import torch

        self.weight, self.bias = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), None), bias
        self.multiply = torch.ops.mkldnn._linear_pointwise.default

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Multiply and add the bias."""
        product: torch.Tensor = self.multiply(x, self.weight, self.bias, "none", [], "")
        return product

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Share the weights, which are never modified."""
        return self


class OnednnAttention:
    """Replacement of the ``forward`` of torch's attention, for self-attention."""

    def __init__(self, attention: Any) -> None:
        self.heads = attention.num_heads
        self.project = OnednnLinear(attention.in_proj_weight, attention.in_proj_bias)
        self.output = OnednnLinear(attention.out_proj.weight, attention.out_proj.bias)

    def __call__(
        self, query: Any, key: Any, value: Any, *, need_weights: bool = False, attn_mask: Any = None
    ) -> tuple[torch.Tensor, None]:
        """Attend; no attention weights are returned."""
        from torch.nn.functional import scaled_dot_product_attention

        if key is not query or value is not query or need_weights:
            raise ValueError("Only self-attention is supported.")
        rows, length, width = query.shape
        parts = self.project(query).view(rows, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        seen = scaled_dot_product_attention(parts[0], parts[1], parts[2], attn_mask=attn_mask)
        return self.output(seen.transpose(1, 2).reshape(rows, length, width)), None


def _onednn_forward(module: Any) -> OnednnLinear | OnednnAttention:
    return OnednnAttention(module) if hasattr(module, "out_proj") else OnednnLinear(module.weight, module.bias)


def _weights_of(module: Any) -> list[tuple[Any, str]]:
    """List the reordered weights by owner and name."""
    if hasattr(module, "out_proj"):
        return [(module, "in_proj_weight"), (module.out_proj, "weight")]
    return [(module, "weight")]
