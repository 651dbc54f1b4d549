"""A torch module that gives the image vectors of a model, as ``clip_benchmark.metrics.linear_probe`` has it."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["Featurizer"]


class Featurizer(torch.nn.Module):  # type: ignore[misc]  # torch is optional, so untyped
    """``model.encode_image``, scaled to unit length unless told otherwise."""

    def __init__(self, model: Any, normalize: bool = True) -> None:
        super().__init__()
        self.model, self.normalize = model, normalize

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002 - scripts may name it
        """Encode a batch of images."""
        features: torch.Tensor = self.model.encode_image(input)
        return torch.nn.functional.normalize(features, dim=-1) if self.normalize else features
