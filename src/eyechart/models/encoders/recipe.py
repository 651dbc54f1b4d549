"""CLIP_benchmark's recipe for a model of one's own: a function that returns model, transform and tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from eyechart.models.encoders.behaviour import behaviour, made_of
from eyechart.models.towers.torch_tools import (
    autocast,
    cast,
    choose_device,
    forward_errors,
    input_type,
    number,
    precision_notes,
    to_numpy,
)
from eyechart.types import ModelCard, ModelSpec, digest_json

Vectors = NDArray[np.float32]


class RecipeEncoder:
    """``model.encode_image``, ``model.encode_text`` and ``tokenizer(texts).to(device)``, as the recipe wants them."""

    def __init__(
        self,
        spec: ModelSpec,
        factory: Callable[..., Any],
        model: Any,
        transform: Callable[[Any], Any],
        tokenizer: Any,
    ) -> None:
        self.device = choose_device(spec.device)
        self.precision = spec.precision
        self.transform = transform
        self.tokenizer = tokenizer
        made = made_of(
            spec, factory, model, transform, tokenizer
        )  # as it was loaded: the precision is a line of its own on the card
        self.model = _settled(model, spec.precision, self.device)
        answers, size, notes = behaviour(self)
        scale = getattr(self.model, "logit_scale", None)
        self.card = ModelCard(
            family="python",
            name=spec.label,
            weights_digest=digest_json([answers, made]),
            transform="recipe",
            precision=spec.precision,
            embedding_dim=size,
            context_length=getattr(tokenizer, "context_length", None),
            logit_scale=number(scale.exp()) if scale is not None else None,
            notes=(*notes, *precision_notes(spec.precision, self.device)),
        )

    def prepare_image(self, image: Image.Image) -> NDArray[np.float32]:
        """Apply the recipe's transform."""
        return np.asarray(self.transform(image), np.float32)

    def encode_images(self, batch: NDArray[np.float32]) -> Vectors:
        """Call ``encode_image``."""
        import torch

        if not len(batch):
            return self._nothing()
        with torch.inference_mode(), autocast(self.precision, self.device), forward_errors(self.precision):
            pixels = torch.from_numpy(np.ascontiguousarray(batch)).to(self.device, input_type(self.precision))
            return to_numpy(self.model.encode_image(pixels))

    def encode_texts(self, texts: Sequence[str], *, language: str = "en") -> Vectors:  # noqa: ARG002 - not in the recipe
        """Call ``encode_text`` on what the tokenizer makes."""
        import torch

        if not len(texts):
            return self._nothing()
        with torch.inference_mode(), autocast(self.precision, self.device), forward_errors(self.precision):
            return to_numpy(self.model.encode_text(self.tokenizer(list(texts)).to(self.device)))

    def truncated(self, texts: Sequence[str]) -> list[bool]:
        """Say nothing: the recipe's tokenizer cuts by itself and does not tell."""
        return [False] * len(texts)

    def _nothing(self) -> Vectors:
        return np.empty((0, self.card.embedding_dim or 0), np.float32)


def _settled(model: Any, precision: str, device: str) -> Any:
    """Put a torch module into evaluation mode, precision and place; anything else is taken as it is."""
    if not hasattr(model, "state_dict"):
        return model
    return cast(model, precision).to(device).eval()
