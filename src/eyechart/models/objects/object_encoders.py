"""In-memory objects as encoders: list-style (`encode_images`) and torch modules (`encode_image`)."""

import inspect
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from eyechart.errors import ModelError, first_line
from eyechart.metrics.vectors import float_array
from eyechart.models.encoders.open_clip import count_tokens
from eyechart.models.encoders.transformers import features
from eyechart.models.family import BaseEncoder
from eyechart.models.objects.fingerprint import probe_fingerprint
from eyechart.models.objects.model_parts import ModelParts, complete, has_method
from eyechart.models.towers import torch_tools
from eyechart.types import Input, ModelCard, ModelSpec, digest_json

Vectors = NDArray[np.float32]


class ListEncoder(BaseEncoder):
    """Calls the object's methods with lists.

    ``encode_images`` receives RGB images of PIL. If the object has ``prepare_image``, it receives the results of that,
    stacked into one array. ``code`` is as for `ModuleEncoder`.
    """

    def __init__(self, spec: ModelSpec, lists: Any, code: str = "") -> None:
        self.lists = lists
        self.name = type(lists.model if isinstance(lists, SentenceLists) else lists).__name__
        self.sees, self.reads = has_method(lists, "encode_images"), has_method(lists, "encode_texts")
        self.takes_language = False
        with suppress(TypeError, ValueError):  # built-in functions have no signature
            self.takes_language = self.reads and "language" in inspect.signature(lists.encode_texts).parameters
        self.devices: Sequence[str] = getattr(lists, "devices", ())
        card = getattr(lists, "card", None)
        if not isinstance(card, ModelCard):  # described by the attributes that it shares with cards
            card = ModelCard(
                family=spec.family,
                name=spec.label,
                weights_digest="",
                transform="as the object does it",
                precision=spec.precision if code else "as given",
                prompts=getattr(lists, "prompts", None) or {},
                similarity=getattr(lists, "similarity", "cosine"),
                context_length=getattr(lists, "context_length", None),
            )
        inputs: tuple[Input, ...] = (*(("image",) if self.sees else ()), *(("text",) if self.reads else ()))
        answers, size, notes = probe_fingerprint(self, inputs)
        # A factory's card may name another family; an in-memory object is listed under the caller's name for it.
        family, name = (card.family, card.name) if code else (spec.family, spec.label)
        self.card = replace(
            card,
            family=family,
            name=name,
            # Includes code and probe outputs, even if the object provides a digest.
            weights_digest=digest_json([card.weights_digest, self.name, answers, code]),
            embedding_dim=card.embedding_dim if size is None else size,
            notes=(*card.notes, *notes),
            inputs=inputs,
            prompting="prefix",
        )

    def prepare_image(self, image: Image.Image) -> NDArray[Any]:
        """Apply the object's transform; without one, keep the RGB pixels."""
        prepare = getattr(self.lists, "prepare_image", None)
        return np.asarray(prepare(image) if prepare is not None else image.convert("RGB"))

    def encode_images(self, batch: Sequence[NDArray[Any]]) -> Vectors:
        """Call the object with images."""
        _require(self.name, "encode_images", able=self.sees)
        if not len(batch):
            return self.no_vectors()
        prepared = hasattr(self.lists, "prepare_image")
        images = batch if prepared else [Image.fromarray(pixels) for pixels in batch]
        return vectors_from(self.lists.encode_images(images), len(batch), f"{self.name}.encode_images")

    def encode_texts(self, texts: Sequence[str], *, language: str = "en") -> Vectors:
        """Call the object with texts, and with the language if it accepts one."""
        _require(self.name, "encode_texts", able=self.reads)
        if not len(texts):
            return self.no_vectors()
        options = {"language": language} if self.takes_language else {}
        return vectors_from(self.lists.encode_texts(list(texts), **options), len(texts), f"{self.name}.encode_texts")

    def truncated(self, texts: Sequence[str]) -> list[bool]:
        """Call the object's ``truncated``; without it, no text counts as truncated."""
        own = getattr(self.lists, "truncated", None)
        return [bool(cut) for cut in own(texts)] if own is not None else super().truncated(texts)


class SentenceLists:
    """A sentence-transformers model through its ``encode``, with its prompts and pooling."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.prompts = {role: text for role, text in (model.prompts or {}).items() if text}
        self.similarity = model.similarity_fn_name or "cosine"
        self.context_length = getattr(model, "max_seq_length", None)
        self.devices = (str(model.device),)
        if "image" in (getattr(model, "modalities", None) or ["text"]):
            self.encode_images = self.encode_texts

    def encode_texts(self, items: list[Any]) -> Any:
        """Encode texts or images in one batch."""
        return self.model.encode(items, batch_size=len(items), show_progress_bar=False, convert_to_numpy=True)

    def truncated(self, texts: Sequence[str]) -> list[bool]:
        """Count tokens, if the model has a maximum length."""
        limit = self.context_length
        if limit is None or not callable(self.model.tokenizer):
            return [False] * len(texts)
        rows = self.model.tokenizer(list(texts), truncation=False, verbose=False)["input_ids"]
        return [len(row) > limit for row in rows]


def _require(name: str, method: str, *, able: bool) -> None:
    """Refuse a task that needs a method which an object lacks: some encode only images or only texts."""
    if not able:
        advice = "This task needs it: implement it, or choose another task."
        raise ModelError("{name} has no {method}.", advice=advice, name=name, method=method)


def vectors_from(output: Any, count: int, name: str) -> Vectors:
    """Convert the output of user code, ``name``, (an array, a tensor, or a list of either) to one row per input."""
    advice = "It must return one row per input, in the same order."
    try:
        array = float_array(output)
    except (TypeError, ValueError) as error:
        raise ModelError(
            "{name} returned a {type} that is not a numeric array ({reason}).",
            advice=advice,
            name=name,
            type=type(output).__name__,
            reason=error,
        ) from error
    if array.ndim != 2 or len(array) != count:
        raise ModelError(
            "{name} returned shape {shape} for {count} inputs.",
            advice=advice,
            name=name,
            shape=array.shape,
            count=count,
        )
    return array


PRECISIONS = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}


class ModuleEncoder(BaseEncoder):
    """Runs ``encode_image`` on prepared images and ``encode_text`` on tokens.

    A model made by a factory is moved to the device and precision of the settings, as in CLIP_benchmark; an in-memory
    model stays as it is. ``code`` is a digest of the code and state behind the object; empty for an in-memory object.
    """

    def __init__(self, spec: ModelSpec, parts: ModelParts, code: str = "") -> None:
        import torch

        parts = complete(parts)
        self.model, self.name = parts.model, type(parts.model).__name__
        self.preprocess, self.tokenizer = parts.preprocess, parts.tokenizer
        self.reads = has_method(self.model, "encode_text")
        seen: tuple[Input, ...] = ("image",) if has_method(self.model, "encode_image") else ()
        inputs: tuple[Input, ...] = (*seen, "text") if self.reads else seen
        is_torch = hasattr(self.model, "state_dict")
        if code:
            self.device, self.precision = torch_tools.choose_device(spec.device), spec.precision
            self.dtype = torch_tools.input_type(spec.precision)
            if is_torch:
                self.model = torch_tools.cast(self.model, spec.precision).to(self.device).eval()
        else:
            weights = self.model.parameters() if has_method(self.model, "parameters") else ()
            first = next((weight for weight in weights if weight.is_floating_point()), None)
            self.device, self.dtype = ("cpu", torch.float32) if first is None else (str(first.device), first.dtype)
            self.precision = PRECISIONS.get(str(self.dtype).rpartition(".")[2], str(self.dtype))
        self.devices = (self.device,)
        answers, size, notes = probe_fingerprint(self, inputs)
        state = code or (torch_tools.weights_digest(self.model) if is_torch else "")
        scale: Any = getattr(self.model, "logit_scale", None)
        bias: Any = getattr(self.model, "logit_bias", None)
        self.card = ModelCard(
            family=spec.family,
            name=spec.label,
            weights_digest=digest_json([self.name, answers, state]),
            transform=f"{torch_tools.describe(self.preprocess)} | {type(self.tokenizer).__name__}",
            precision=self.precision,
            embedding_dim=size,
            context_length=getattr(self.tokenizer, "context_length", None),
            parameters=sum(weight.numel() for weight in self.model.parameters()) if is_torch else None,
            logit_scale=torch_tools.number(scale.exp()) if hasattr(scale, "exp") else None,
            logit_bias=torch_tools.number(bias) if hasattr(bias, "detach") else None,
            notes=(*notes, *(torch_tools.precision_notes(self.precision, self.device) if code else ())),
            inputs=inputs,
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

        if not len(batch):
            return self.no_vectors()
        pixels = torch_tools.stack_images(batch, self.name)
        with torch.no_grad(), torch_tools.forward_pass(self.precision, self.device):
            placed = pixels.to(self.device, self.dtype if pixels.is_floating_point() else None)
            output = self.model.encode_image(placed)
            return vectors_from(features(output), len(batch), f"{self.name}.encode_image")

    def encode_texts(self, texts: Sequence[str], *, language: str = "en") -> Vectors:  # noqa: ARG002 - not supported by the interface
        """Call ``encode_text`` on the tokenizer's output."""
        import torch

        _require(self.name, "encode_text", able=self.reads)
        if not len(texts):
            return self.no_vectors()
        with torch.no_grad(), torch_tools.forward_pass(self.precision, self.device):
            encode, library = self.model.encode_text, {}
            if hasattr(self.tokenizer, "pad_token_id") or hasattr(self.tokenizer, "image_processor"):
                library = {"padding": True, "truncation": True, "return_tensors": "pt"}
            tokens: Any = self.tokenizer(text=list(texts), **library) if library else self.tokenizer(list(texts))
            if not isinstance(tokens, Mapping):
                output = encode(self._placed(tokens))
            elif _takes_names(encode):
                output = encode(**{name: self._placed(value) for name, value in tokens.items()})
            else:
                # Like CLIP_benchmark, pass a container with `.to()` to encode_text as it is.
                as_is = hasattr(tokens, "to") and not library
                output = encode(self._placed(tokens if as_is else tokens["input_ids"]))
            return vectors_from(features(output), len(texts), f"{self.name}.encode_text")

    def truncated(self, texts: Sequence[str]) -> list[bool]:
        """Count tokens with open_clip tokenizers; others truncate without a report."""
        limit = getattr(self.tokenizer, "context_length", None)
        if isinstance(limit, int) and has_method(self.tokenizer, "encode"):
            with suppress(TypeError, AttributeError):  # an unrelated method
                return [count_tokens(self.tokenizer, text) > limit for text in texts]
        return super().truncated(texts)

    def _placed(self, tokens: Any) -> Any:
        import torch

        try:
            return (tokens if hasattr(tokens, "to") else torch.as_tensor(np.asarray(tokens))).to(self.device)
        except (TypeError, ValueError) as error:
            raise ModelError(
                "The tokenizer of {name} does not return a tensor ({reason}).",
                advice="It must return the same number of tokens for each text: pad and truncate.",
                name=self.name,
                reason=first_line(error),
            ) from error


def _takes_names(method: Any) -> bool:
    parameters = inspect.signature(method).parameters
    return "input_ids" in parameters or any(one.kind is one.VAR_KEYWORD for one in parameters.values())
