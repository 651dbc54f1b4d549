"""Text towers of open_clip without the padding: several times faster, the same vectors.

A tower with a causal mask that reads its answer at the end token never looks at what stands behind that token, so the
padding (most of 77 positions for a prompt of ten) can be cut off. Whether a tower is of that kind is not guessed: the
shortened pass is compared with the library's own on load, and used only if they agree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from eyechart.models.towers.last_block import PLACES, TOLERANCE, PooledOnly, shorten
from eyechart.models.towers.packed import pack

if TYPE_CHECKING:
    import torch

PROBES = ("a", "a photo of a dog.", "two red cups left of a very small, rather old and quite expensive wooden table!?")

Tokenize = Callable[[list[str]], "torch.Tensor"]


def trimmable(model: Any, tokenizer: Tokenize) -> bool:
    """Tell whether the padding can be cut off: try both ways on texts of different length and compare."""
    import torch
    from torch.nn.functional import normalize

    if _tower(model) is None:
        return False
    device = next(model.parameters()).device
    with torch.inference_mode():
        tokens = tokenizer(list(PROBES)).to(device)
        try:
            short = normalize(encode_trimmed(model, trim(tokens)).float(), dim=-1)
        except (RuntimeError, ValueError, IndexError):
            # The tower counts on its full length somewhere: it is not of the kind that can be cut.
            return False
        whole = normalize(model.encode_text(tokens).float(), dim=-1)
        return short.shape == whole.shape and bool((short - whole).abs().max() <= TOLERANCE)


def shorten_texts(model: Any, tokenizer: Tokenize) -> PooledOnly | None:
    """Let the last block of a model for which `trimmable` holds compute the end token only, if that is exact."""
    transformer, encode = _tried(model, tokenizer)
    return shorten(transformer, encode)


def pack_texts(model: Any, tokenizer: Tokenize) -> bool:
    """Lay out the weights of the text tower of such a model, if that is exact."""
    return pack(*_tried(model, tokenizer))


def _tried(model: Any, tokenizer: Tokenize) -> tuple[Any, Callable[[], torch.Tensor]]:
    """Return the blocks of the text tower, and what runs them on some texts."""
    _, tower = _tower(model) or ("", model)
    tokens = tokenizer(list(PROBES)).to(next(model.parameters()).device)
    return getattr(tower, "transformer", None), lambda: encode_trimmed(model, trim(tokens))


def trim(tokens: torch.Tensor) -> torch.Tensor:
    """Cut off the padding behind the longest text of a batch.

    Args:
        tokens: One text a row, padded with zeros at the end.
    """
    # Not a count of non-zero tokens: 0 is also a piece of a word (an exclamation mark) in some vocabularies.
    length = int((tokens != 0).any(dim=0).nonzero().max()) + 1 if tokens.any() else 1
    return tokens[:, :length]


def encode_trimmed(model: Any, tokens: torch.Tensor) -> torch.Tensor:
    """Run the library's own forward pass with only as many positions as the tokens have.

    The model is changed while this runs: two threads must not share one.

    Args:
        model: A model for which `trimmable` holds.
        tokens: What `trim` left.
    """
    import torch
    from torch.func import functional_call

    class Text(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return self.model.encode_text(tokens)

    prefix, tower = _tower(model) or ("", model)
    length = tokens.shape[1]
    shorter = {
        f"model.{prefix}positional_embedding": tower.positional_embedding[:length],
        f"model.{prefix}attn_mask": tower.attn_mask[:length, :length],
    }
    before = PLACES.set(tokens.argmax(dim=-1))
    try:
        encoded: torch.Tensor = functional_call(Text(), shorter, (tokens,))
    finally:
        PLACES.reset(before)
    return encoded


def _tower(model: Any) -> tuple[str, Any] | None:
    """Find the module with the position embedding and the mask, wherever this kind of model keeps it."""
    for prefix, tower in (("", model), ("text.", getattr(model, "text", None))):
        positions, mask = getattr(tower, "positional_embedding", None), getattr(tower, "attn_mask", None)
        if positions is not None and mask is not None and positions.shape[0] == mask.shape[0]:
            return prefix, tower
    return None
