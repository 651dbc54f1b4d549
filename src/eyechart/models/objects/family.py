"""The ``object`` family: a model that the caller has in memory. It is never known again, and never stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from eyechart.errors import ModelError
from eyechart.models.objects.list_encoder import ListEncoder, SentenceLists
from eyechart.models.objects.module_encoder import ModuleEncoder, complete
from eyechart.models.objects.parts import ModelParts, is_sentence_transformer, is_transformers, parts_of
from eyechart.models.objects.transformers_object import transformers_encoder
from eyechart.types import Encoder, ModelSpec

Maker = Callable[[ModelSpec, ModelParts], Any]


class ObjectFamily:
    """Makes an encoder of an object."""

    own_options: Mapping[str, Any] = MappingProxyType({})

    def check(self, spec: ModelSpec) -> None:
        """Refuse what is no model, or lacks a part; nothing is computed."""
        parts = parts_of(_thing(spec))
        if maker_of(parts) is ModuleEncoder:
            complete(parts)
        if (_takes_lists(parts.model) or is_sentence_transformer(parts.model)) and parts != ModelParts(parts.model):
            raise ModelError(
                f"{type(parts.model).__name__} takes images and texts as they are: nothing else prepares them.",
                advice="Leave out preprocess, tokenizer and processor, or give them with the model that they belong "
                "to: (model, preprocess, tokenizer).",
            )

    def identity(self, spec: ModelSpec) -> None:  # noqa: ARG002 - its weights may have changed since the last call
        """Return nothing: an object may be another one at each call."""
        return

    def load(self, spec: ModelSpec) -> Encoder:
        """Wrap the object; it stays where it is and in the precision that it has."""
        parts = parts_of(_thing(spec))
        encoder: Encoder = maker_of(parts)(spec, parts)
        return encoder


def maker_of(parts: ModelParts) -> Maker:
    """Return what makes an encoder of a model of this kind; the first kind that fits is taken."""
    return next(make for fits, make in KINDS if fits(parts.model))


def _thing(spec: ModelSpec) -> Any:
    if spec.given is None:
        raise ModelError(
            f"{spec.name} is no object that was handed over.", advice="Objects are given to evaluate in Python."
        )
    return spec.given.thing


def _takes_lists(model: Any) -> bool:
    return any(callable(getattr(model, name, None)) for name in ("encode_images", "encode_texts"))


KINDS: tuple[tuple[Callable[[Any], bool], Maker], ...] = (
    (_takes_lists, lambda spec, parts: ListEncoder(spec, parts.model)),
    (is_sentence_transformer, lambda spec, parts: ListEncoder(spec, SentenceLists(parts.model), parts.model)),
    (is_transformers, transformers_encoder),
    (lambda _: True, ModuleEncoder),
)
"""Which object is encoded how."""
