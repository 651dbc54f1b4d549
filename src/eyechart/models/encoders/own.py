"""An object of somebody's own as an encoder."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from eyechart.errors import ModelError
from eyechart.models.encoders.behaviour import behaviour, made_of
from eyechart.types import ModelCard, ModelSpec, digest_json

Vectors = NDArray[np.float32]


class OwnEncoder:
    """Completes an object that encodes images and texts: a card, no limit on texts, one kind of array."""

    def __init__(self, spec: ModelSpec, factory: Callable[..., Any], model: Any) -> None:
        self.model = model
        self.takes_language = "language" in inspect.signature(model.encode_texts).parameters
        self.devices: Sequence[str] = getattr(model, "devices", ())
        own: ModelCard | None = getattr(model, "card", None)
        code = made_of(spec, factory, model)
        answers, size, notes = behaviour(self)
        card = own or ModelCard("python", spec.label, "", "own", spec.precision, size)
        # Whatever it calls itself: vectors that other code has computed, or that came out otherwise, are not its own.
        digest = digest_json([card.weights_digest, answers, code])
        self.card = dataclasses.replace(card, weights_digest=digest, notes=(*card.notes, *notes))

    def prepare_image(self, image: Image.Image) -> NDArray[Any]:
        """Call the model's own transform; without one the pixels go to it as they are."""
        prepare = getattr(self.model, "prepare_image", None)
        return np.asarray(prepare(image) if prepare is not None else image.convert("RGB"))

    def encode_images(self, batch: Sequence[NDArray[Any]]) -> Vectors:
        """Call the model."""
        return (
            self._checked("encode_images", self.model.encode_images(batch), len(batch)) if len(batch) else self._none()
        )

    def encode_texts(self, texts: Sequence[str], *, language: str = "en") -> Vectors:
        """Call the model, with the language if it wants to know."""
        if not len(texts):
            return self._none()
        options = {"language": language} if self.takes_language else {}
        return self._checked("encode_texts", self.model.encode_texts(list(texts), **options), len(texts))

    def truncated(self, texts: Sequence[str]) -> list[bool]:
        """Ask the model, if it can tell."""
        own = getattr(self.model, "truncated", None)
        return [bool(cut) for cut in own(texts)] if own is not None else [False] * len(texts)

    def _none(self) -> Vectors:
        return np.empty((0, self.card.embedding_dim or 0), np.float32)

    def _checked(self, method: str, vectors: Any, count: int) -> Vectors:
        return as_vectors(vectors, count, f"{type(self.model).__name__}.{method}")


def as_vectors(vectors: Any, count: int, name: str) -> Vectors:
    """Make one float32 array of what somebody's code gave: an array, a tensor, or a list of either.

    Args:
        vectors: What it gave.
        count: How many inputs it got.
        name: What is called like that in messages.

    Raises:
        ModelError: If there is not one row of numbers per input.
    """
    advice = "It must give one row per input, in the same order."
    rows = vectors if isinstance(vectors, list | tuple) else [vectors]
    if rows and all(hasattr(row, "detach") for row in rows):
        arrays = [row.detach().float().cpu().numpy() for row in rows]
        vectors = arrays if rows is vectors else arrays[0]
    try:
        if np.iscomplexobj(vectors):
            raise TypeError("complex numbers")
        array = np.asarray(vectors, np.float32)
    except (TypeError, ValueError) as error:
        raise ModelError(
            f"{name} gave a {type(vectors).__name__} that is no array of numbers ({error}).", advice=advice
        ) from error
    if array.ndim != 2 or len(array) != count:
        raise ModelError(f"{name} gave shape {array.shape} for {count} inputs.", advice=advice)
    return array
