"""Vectors of a script's own torch model: of unit length and in float32, whatever the model computes in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from eyechart.errors import DataError
from eyechart.metrics.vectors import Vectors, unit

if TYPE_CHECKING:
    import torch

TEXTS = 64
"""Texts per forward pass."""


def image_units(model: Any, images: torch.Tensor, device: Any, *, amp: bool) -> Vectors:
    """Encode a batch of images."""
    import torch

    with torch.no_grad(), mixed(device, amp=amp):
        return unit(array_of(model.encode_image(images.to(device))))


def text_units(
    model: Any, tokenizer: Callable[[list[str]], Any], texts: Sequence[str], device: Any, *, amp: bool
) -> Vectors:
    """Encode any number of texts."""
    import torch

    parts = []
    for start in range(0, len(texts), TEXTS):
        with torch.no_grad(), mixed(device, amp=amp):
            tokens = tokenizer(list(texts[start : start + TEXTS])).to(device)
            parts.append(array_of(model.encode_text(tokens)))
    return unit(np.concatenate(parts))


def encode_loader(model: Any, dataloader: Iterable[Any], device: Any, *, amp: bool) -> tuple[Vectors, torch.Tensor]:
    """Encode all images of a loader, and put its targets together."""
    import torch

    vectors, targets = [], []
    for images, target in dataloader:
        vectors.append(image_units(model, images, device, amp=amp))
        targets.append(torch.as_tensor(target).cpu())
    if not vectors:
        raise DataError("The loader has no batches.", advice="Check the dataset: it is empty.")
    return np.concatenate(vectors), torch.cat(targets)


def mixed(device: Any, *, amp: bool) -> AbstractContextManager[Any]:
    """Return autocast on a GPU. On a CPU it would be bfloat16, which costs accuracy and hardly any time: float32."""
    import torch

    if not amp or torch.device(device).type != "cuda":
        return nullcontext()
    context: AbstractContextManager[Any] = torch.autocast("cuda")
    return context


def array_of(tensor: torch.Tensor) -> Vectors:
    """Return a tensor's numbers in float32."""
    numbers: Vectors = tensor.detach().float().cpu().numpy()
    return numbers
