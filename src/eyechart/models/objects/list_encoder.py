"""An object with ``encode_images(list of images)`` or ``encode_texts(list of str)``, or both, as an encoder."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from eyechart.errors import ModelError
from eyechart.models.encoders.behaviour import behaviour
from eyechart.models.encoders.own import as_vectors
from eyechart.types import OBJECT, ModelCard, ModelSpec, digest_json

Vectors = NDArray[np.float32]


class ListEncoder:
    """Calls an object's own methods with lists.

    One that has ``prepare_image`` gets what that returns, as `eyechart.types.Encoder` says; others get images of PIL.
    """

    def __init__(self, spec: ModelSpec, lists: Any, model: Any = None) -> None:
        self.lists = lists
        self.name = type(lists if model is None else model).__name__
        self.sees = callable(getattr(lists, "encode_images", None))
        self.reads = callable(getattr(lists, "encode_texts", None))
        self.takes_language = self.reads and _takes(lists.encode_texts, "language")
        self.devices: Sequence[str] = getattr(lists, "devices", ())
        own: ModelCard | None = getattr(lists, "card", None)
        answers, size, notes = behaviour(self, sees=self.sees, reads=self.reads)
        known: dict[str, Any] = {
            "logit_scale": getattr(own, "logit_scale", None),
            "logit_bias": getattr(own, "logit_bias", None),
            "prompts": getattr(own, "prompts", None) or getattr(lists, "prompts", None) or {},
            "similarity": getattr(own, "similarity", None) or getattr(lists, "similarity", "cosine"),
            "context_length": getattr(own, "context_length", None) or getattr(lists, "context_length", None),
        }
        self.card = ModelCard(
            family=OBJECT,
            name=spec.label,
            weights_digest=digest_json([self.name, answers]),
            transform="as the object does it",
            precision=getattr(own, "precision", "as given"),
            embedding_dim=size,
            notes=tuple(notes),
            **known,
        )

    def prepare_image(self, image: Image.Image) -> NDArray[Any]:
        """Call the object's own transform; without one the pixels are kept as they are."""
        prepare = getattr(self.lists, "prepare_image", None)
        return np.asarray(prepare(image) if prepare is not None else image.convert("RGB"))

    def encode_images(self, batch: Sequence[NDArray[Any]]) -> Vectors:
        """Call the object with images."""
        self._need("encode_images", able=self.sees)
        whole = hasattr(self.lists, "prepare_image")
        images = batch if whole else [Image.fromarray(pixels) for pixels in batch]
        return as_vectors(self.lists.encode_images(images), len(batch), f"{self.name}.encode_images")

    def encode_texts(self, texts: Sequence[str], *, language: str = "en") -> Vectors:
        """Call the object with texts, and with the language if it wants to know."""
        self._need("encode_texts", able=self.reads)
        options = {"language": language} if self.takes_language else {}
        return as_vectors(self.lists.encode_texts(list(texts), **options), len(texts), f"{self.name}.encode_texts")

    def truncated(self, texts: Sequence[str]) -> list[bool]:
        """Ask the object, if it can tell."""
        own = getattr(self.lists, "truncated", None)
        return [bool(cut) for cut in own(texts)] if own is not None else [False] * len(texts)

    def _need(self, method: str, *, able: bool) -> None:
        if not able:
            raise ModelError(
                f"{self.name} has no {method}.",
                advice="This task needs it: give the model one, or choose another task.",
            )


class SentenceLists:
    """A model of sentence-transformers, by its own ``encode``: its prompts, its pooling."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.prompts = {role: text for role, text in (model.prompts or {}).items() if text}
        self.similarity = model.similarity_fn_name or "cosine"
        self.context_length = getattr(model, "max_seq_length", None)
        self.devices = (str(model.device),)
        if "image" in (getattr(model, "modalities", None) or ["text"]):
            self.encode_images = self.encode_texts

    def encode_texts(self, items: list[Any]) -> Any:
        """Encode texts, or images, at once."""
        return self.model.encode(items, batch_size=len(items), show_progress_bar=False, convert_to_numpy=True)

    def truncated(self, texts: Sequence[str]) -> list[bool]:
        """Count the tokens, as far as the model says how many it reads."""
        limit = self.context_length
        if limit is None or not callable(self.model.tokenizer):
            return [False] * len(texts)
        rows = self.model.tokenizer(list(texts), truncation=False, verbose=False)["input_ids"]
        return [len(row) > limit for row in rows]


def _takes(function: Any, name: str) -> bool:
    try:
        return name in inspect.signature(function).parameters
    except (TypeError, ValueError):  # of a built-in function nothing is known
        return False
