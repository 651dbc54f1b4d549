"""The last block of open_clip's transformers, for the one position that is read: the same vectors, less work.

A tower that reads its answer at one position (the class token of an image, the end token of a text) needs the other
positions of its last block as keys and values only. Whether a tower is of that kind is not guessed: the shorter pass
is compared with the library's own on load, and used only if they agree.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

TOLERANCE = 1e-5
"""Largest difference between unit vectors of both passes; rounding alone gives about 1e-7."""
PLACES: ContextVar[torch.Tensor | None] = ContextVar("PLACES", default=None)
"""For each row of a batch, the position that will be read; None is the first of each, alone in the result."""

Encode = Callable[[], "torch.Tensor"]


class PooledOnly:
    """Takes the place of a residual attention block's ``forward``."""

    def __init__(self, block: Any) -> None:
        self.block = block

    def __call__(self, x: Any, k_x: Any = None, v_x: Any = None, attn_mask: Any = None) -> torch.Tensor:
        """Compute the block for one position of each row."""
        import torch

        block = self.block
        if k_x is not None or v_x is not None:
            raise ValueError("Only self-attention is meant here.")
        rows = torch.arange(len(x), device=x.device)
        read = PLACES.get()
        places = torch.zeros_like(rows) if read is None else read.to(x.device)
        normed = block.ln_1(x)
        mask = None if attn_mask is None else _rows_of(attn_mask.to(x.dtype), places, block.attn.num_heads)
        seen, _ = block.attn(normed[rows, places][:, None], normed, normed, need_weights=False, attn_mask=mask)
        one = x[rows, places][:, None] + block.ls_1(seen)
        one = one + block.ls_2(block.mlp(block.ln_2(one)))
        if read is None:
            return one
        whole = torch.zeros_like(x)
        whole[rows, places] = one[:, 0]
        return whole


def _rows_of(mask: torch.Tensor, places: torch.Tensor, heads: int) -> torch.Tensor:
    """Return the mask's row of each place, once per head, as torch's attention wants a mask per text."""
    if mask.dim() != 2:
        raise ValueError("Only a mask that is the same for all rows is meant here.")
    return mask[places][:, None].repeat_interleave(heads, dim=0)


def last_block(transformer: Any) -> Any | None:
    """Find the last block of an open_clip transformer, if it is of the plain kind."""
    from open_clip.transformer import ResidualAttentionBlock

    blocks = getattr(transformer, "resblocks", None)
    return blocks[-1] if blocks is not None and isinstance(blocks[-1], ResidualAttentionBlock) else None


def shorten(transformer: Any, encode: Encode) -> PooledOnly | None:
    """Let the last block compute only the position that is read, if ``encode`` then gives the same vectors.

    Args:
        transformer: The tower's stack of blocks.
        encode: Runs the whole tower on some input of several different rows; where another position than the first
            is read, it says so in `PLACES`.
    """
    import torch
    from torch.nn.functional import normalize

    block = last_block(transformer)
    if block is None:
        return None
    with torch.inference_mode():
        whole = normalize(encode().float(), dim=-1)
        short = PooledOnly(block)
        block.forward = short
        try:
            found = normalize(encode().float(), dim=-1)
            agree = found.shape == whole.shape and bool((found - whole).abs().max() <= TOLERANCE)
        except (RuntimeError, ValueError, IndexError):
            # The tower needs the other positions for something: it is not of the kind that can be shortened.
            agree = False
    if agree:
        return short
    del block.forward
    return None


def shorten_images(model: Any) -> PooledOnly | None:
    """Shorten the image tower, if that is exact."""
    noise = noise_for(model)
    if noise is None or last_block(getattr(model.visual, "transformer", None)) is None:
        return None
    return shorten(model.visual.transformer, lambda: model.encode_image(noise))


def noise_for(model: Any) -> torch.Tensor | None:
    """Make three different images of noise to try an image tower with, if it says how large they are."""
    import torch

    size = getattr(model.visual, "image_size", None)
    if size is None:
        return None
    height, width = size if isinstance(size, tuple | list) else (size, size)
    weight = next(model.visual.parameters())
    noise = torch.randn(3, 3, height, width, generator=torch.Generator().manual_seed(0))
    return noise.to(weight.device, weight.dtype)
