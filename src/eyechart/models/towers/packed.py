"""Weights of open_clip's transformers laid out once as oneDNN multiplies them: less work on a CPU.

A linear layer of torch arranges its weights anew in each call. Arranged once, the same products take a sixth less time,
and differ by rounding only. As everywhere, that is not guessed: a tower is compared with itself as the library has it
on load, and left alone if they differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self

from eyechart.models.towers.last_block import TOLERANCE, PooledOnly, noise_for

if TYPE_CHECKING:
    import torch

LARGEST = 4 * 2**30
"""Bytes of a tower's weights: for a moment they are there in both forms."""

Encode = Callable[[], "torch.Tensor"]


class PackedLinear:
    """Takes the place of a linear layer's ``forward``."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        import torch

        self.weight, self.bias = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), None), bias
        self.multiply = torch.ops.mkldnn._linear_pointwise.default

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Multiply and add the bias."""
        product: torch.Tensor = self.multiply(x, self.weight, self.bias, "none", [], "")
        return product

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Share the weights: nothing changes them."""
        return self


class PackedAttention:
    """Takes the place of the ``forward`` of torch's attention, for queries that are also the keys and the values."""

    def __init__(self, attention: Any) -> None:
        self.heads = attention.num_heads
        self.project = PackedLinear(attention.in_proj_weight, attention.in_proj_bias)
        self.output = PackedLinear(attention.out_proj.weight, attention.out_proj.bias)

    def __call__(
        self, query: Any, key: Any, value: Any, *, need_weights: bool = False, attn_mask: Any = None
    ) -> tuple[torch.Tensor, None]:
        """Attend; there are no weights to return."""
        from torch.nn.functional import scaled_dot_product_attention

        if key is not query or value is not query or need_weights:
            raise ValueError("Only self-attention is meant here.")
        rows, length, width = query.shape
        parts = self.project(query).view(rows, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        seen = scaled_dot_product_attention(parts[0], parts[1], parts[2], attn_mask=attn_mask)
        return self.output(seen.transpose(1, 2).reshape(rows, length, width)), None


def pack(transformer: Any, encode: Encode) -> bool:
    """Lay out the weights of a tower, if ``encode`` then gives the same vectors; tell whether that is so.

    Args:
        transformer: The tower's stack of blocks, in float32 on a CPU.
        encode: Runs the whole tower on some input of several different rows.
    """
    import torch
    from torch.nn.functional import normalize

    modules = list(_modules(transformer))
    if not modules or not torch.backends.mkldnn.is_available() or _size(modules) > LARGEST:
        return False
    with torch.inference_mode():
        whole = normalize(encode(), dim=-1)
        try:
            for module in modules:
                module.forward = _packed(module)
            found = normalize(encode(), dim=-1)
            agree = found.shape == whole.shape and bool((found - whole).abs().max() <= TOLERANCE)
        except (RuntimeError, ValueError, AttributeError):
            # This torch has no such product, or the tower attends to something else than itself.
            agree = False
    for module in modules:
        if agree:
            _forget(module)
        else:
            module.__dict__.pop("forward", None)
    return agree


def pack_images(model: Any) -> bool:
    """Lay out the weights of the image tower, if that is exact."""
    noise = noise_for(model)
    return noise is not None and pack(getattr(model.visual, "transformer", None), lambda: model.encode_image(noise))


def _modules(transformer: Any) -> Iterator[Any]:
    """Yield the linear layers and attentions of all blocks that are of the plain kind."""
    import torch
    from open_clip.transformer import ResidualAttentionBlock

    for block in getattr(transformer, "resblocks", ()):
        if not isinstance(block, ResidualAttentionBlock):
            continue
        yield from (layer for layer in block.mlp if type(layer) is torch.nn.Linear)
        shortened = isinstance(block.__dict__.get("forward"), PooledOnly)  # its query is one position of the others
        if type(block.attn) is torch.nn.MultiheadAttention and block.attn.batch_first and not shortened:
            yield block.attn


def _packed(module: Any) -> PackedLinear | PackedAttention:
    return PackedAttention(module) if hasattr(module, "out_proj") else PackedLinear(module.weight, module.bias)


def _weights(module: Any) -> list[tuple[Any, str]]:
    """Name the weights that are laid out."""
    return (
        [(module, "in_proj_weight"), (module.out_proj, "weight")]
        if hasattr(module, "out_proj")
        else [(module, "weight")]
    )


def _size(modules: list[Any]) -> int:
    return sum(getattr(owner, name).nbytes for module in modules for owner, name in _weights(module))


def _forget(module: Any) -> None:
    """Give the memory of the original weights back; their type is still asked for."""
    import torch

    for owner, name in _weights(module):
        setattr(owner, name, torch.nn.Parameter(getattr(owner, name).new_empty(0), requires_grad=False))
