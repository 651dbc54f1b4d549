"""A torch module with ``encode_image`` and ``encode_text``, its preprocessing and its tokenizer, as an encoder."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from eyechart.errors import ModelError, first_line
from eyechart.models.encoders.behaviour import behaviour
from eyechart.models.encoders.open_clip_texts import count_tokens
from eyechart.models.encoders.own import as_vectors
from eyechart.models.encoders.transformers_kinds import features
from eyechart.models.objects.parts import PREPROCESS, TOKENIZER, ModelParts, found_on
from eyechart.models.towers.torch_tools import count_parameters, describe, forward_errors, number, weights_digest
from eyechart.types import OBJECT, ModelCard, ModelSpec, digest_json

if TYPE_CHECKING:
    import torch

Vectors = NDArray[np.float32]
PRECISIONS = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}


class ModuleEncoder:
    """Runs ``encode_image`` on prepared images and ``encode_text`` on tokens, on the device that the module is on."""

    def __init__(self, spec: ModelSpec, parts: ModelParts) -> None:
        parts = complete(parts)
        self.model, self.name = parts.model, type(parts.model).__name__
        self.preprocess, self.tokenizer = parts.preprocess, parts.tokenizer
        self.sees, self.reads = has(self.model, "encode_image"), has(self.model, "encode_text")
        self.device, self.kind = _place_of(self.model)
        self.devices = (self.device,)
        answers, size, notes = behaviour(self, sees=self.sees, reads=self.reads)
        module = hasattr(self.model, "state_dict")
        scale: Any = getattr(self.model, "logit_scale", None)
        bias: Any = getattr(self.model, "logit_bias", None)
        self.card = ModelCard(
            family=OBJECT,
            name=spec.label,
            weights_digest=digest_json([self.name, answers, weights_digest(self.model) if module else ""]),
            transform=f"{describe(self.preprocess)} | {type(self.tokenizer).__name__}",
            precision=PRECISIONS.get(str(self.kind).rpartition(".")[2], str(self.kind)),
            embedding_dim=size,
            context_length=getattr(self.tokenizer, "context_length", None),
            parameters=count_parameters(self.model) if module else None,
            logit_scale=number(scale.exp()) if hasattr(scale, "exp") else None,
            logit_bias=number(bias) if hasattr(bias, "detach") else None,
            notes=tuple(notes),
        )

    def prepare_image(self, image: Image.Image) -> NDArray[Any]:
        """Apply the preprocessing: a transform, or an image processor of transformers."""
        if hasattr(self.preprocess, "image_mean") or hasattr(self.preprocess, "image_processor"):
            return np.asarray(self.preprocess(images=image, return_tensors="np")["pixel_values"][0], np.float32)
        pixels = self.preprocess(image)
        return np.asarray(pixels.numpy(force=True) if hasattr(pixels, "detach") else pixels)

    def encode_images(self, batch: Any) -> Vectors:
        """Call ``encode_image``."""
        import torch

        if not len(batch) or len({np.shape(pixels) for pixels in batch}) > 1:
            raise ModelError(
                f"{self.name}: the preprocessing gives images of different shapes, which cannot be encoded together.",
                advice="It must resize and crop them to one size; else use --batch_size 1.",
            )
        pixels = torch.from_numpy(np.ascontiguousarray(batch))
        with torch.no_grad(), forward_errors("this precision"):
            placed = pixels.to(self.device, self.kind if pixels.is_floating_point() else None)
            return self._vectors("encode_image", self.model.encode_image(placed), len(batch))

    def encode_texts(self, texts: Sequence[str], *, language: str = "en") -> Vectors:  # noqa: ARG002 - it has no say
        """Call ``encode_text`` on what the tokenizer makes."""
        import torch

        if not self.reads:
            raise ModelError(f"{self.name} has no encode_text.", advice="This task needs it: choose another task.")
        with torch.no_grad(), forward_errors("this precision"):
            tokens = self._tokens(list(texts))
            named = isinstance(tokens, Mapping)
            found = self.model.encode_text(**tokens) if named else self.model.encode_text(tokens)
            return self._vectors("encode_text", found, len(texts))

    def truncated(self, texts: Sequence[str]) -> list[bool]:
        """Count the tokens where the tokenizer is one of open_clip's; others cut by themselves and do not tell."""
        limit = getattr(self.tokenizer, "context_length", None)
        if not isinstance(limit, int) or not callable(getattr(self.tokenizer, "encode", None)):
            return [False] * len(texts)
        with suppress(TypeError, AttributeError):  # an encode of another kind
            return [count_tokens(self.tokenizer, text) > limit for text in texts]
        return [False] * len(texts)

    def _tokens(self, texts: list[str]) -> Any:
        """Return a tensor, or tensors by name if ``encode_text`` takes them so."""
        takes_options = hasattr(self.tokenizer, "pad_token_id") or hasattr(self.tokenizer, "image_processor")
        options = {"padding": True, "truncation": True, "return_tensors": "pt"} if takes_options else {}
        tokens = self.tokenizer(text=texts, **options) if options else self.tokenizer(texts)
        if isinstance(tokens, Mapping) or hasattr(tokens, "input_ids"):
            placed = {name: self._placed(value) for name, value in tokens.items()}
            return placed if _takes_names(self.model.encode_text) else placed["input_ids"]
        return self._placed(tokens)

    def _placed(self, tokens: Any) -> Any:
        import torch

        try:
            return (tokens if hasattr(tokens, "to") else torch.as_tensor(np.asarray(tokens))).to(self.device)
        except (TypeError, ValueError) as error:
            raise ModelError(
                f"The tokenizer of {self.name} gives no tensor ({first_line(error)}).",
                advice="It must give as many tokens for each text: let it pad and cut them.",
            ) from error

    def _vectors(self, method: str, output: Any, count: int) -> Vectors:
        return as_vectors(features(output), count, f"{self.name}.{method}")


def has(model: Any, method: str) -> bool:
    """Tell whether a model has a method."""
    return callable(getattr(model, method, None))


def complete(parts: ModelParts) -> ModelParts:
    """Find the preprocessing and the tokenizer on the module where they were not given.

    Raises:
        ModelError: If one that is needed is nowhere.
    """
    whole = replace(
        parts,
        preprocess=parts.preprocess or parts.processor or found_on(parts.model, PREPROCESS),
        tokenizer=parts.tokenizer or parts.processor or found_on(parts.model, TOKENIZER),
    )
    needed = (
        ("encode_image", whole.preprocess, "how its images are prepared", "preprocess"),
        ("encode_text", whole.tokenizer, "how its texts become tokens", "tokenizer"),
    )
    for method, part, what, argument in needed:
        if has(parts.model, method) and part is None:
            raise ModelError(
                f"{type(parts.model).__name__} has {method}, but nothing says {what}.",
                advice=f"Give {argument}=..., or a tuple (model, preprocess, tokenizer).",
            )
    return whole


def _place_of(model: Any) -> tuple[str, torch.dtype]:
    """Return the device of a module and the type of its numbers, by its first parameter."""
    import torch

    parameters = model.parameters() if callable(getattr(model, "parameters", None)) else ()
    first = next((one for one in parameters if one.is_floating_point()), None)
    return ("cpu", torch.float32) if first is None else (str(first.device), first.dtype)


def _takes_names(method: Any) -> bool:
    parameters = inspect.signature(method).parameters
    return "input_ids" in parameters or any(one.kind is one.VAR_KEYWORD for one in parameters.values())
