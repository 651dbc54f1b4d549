"""How each transformers architecture reads: what its authors did with texts, and where its two vectors come out.

One row per architecture. What is not in the table reads with its tokenizer's own settings and must have
``get_image_features`` and ``get_text_features``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Tower = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class ReadingKind:
    """How one architecture is used."""

    padding: bool | str = True
    """To the longest text of a batch, or to full length where the text tower reads the padding too."""
    length: int | None = None
    """Tokens that the authors read, if that is less than the tower has positions for."""
    lower: bool = False
    """Trained on lower-case texts; a tokenizer that keeps the case gets them so."""
    offset: int = 0
    """Positions that the tower has but cannot use (RoBERTa counts from the padding index)."""
    note: str = ""


@dataclass(frozen=True)
class FeatureHead:
    """Where the vectors of a class come out."""

    image: Tower
    text: Tower


def features(output: Any) -> Any:
    """Return the projected vectors: transformers 5 wraps them in an output object, earlier ones do not."""
    return getattr(output, "pooler_output", output)


def _plain_image(model: Any, inputs: Mapping[str, Any]) -> Any:
    return features(model.get_image_features(**inputs))


def _plain_text(model: Any, inputs: Mapping[str, Any]) -> Any:
    return features(model.get_text_features(**inputs))


def _blip_image(model: Any, inputs: Mapping[str, Any]) -> Any:
    return _unit(model.vision_proj(model.vision_model(**inputs).last_hidden_state[:, 0]))


def _blip_text(model: Any, inputs: Mapping[str, Any]) -> Any:
    return _unit(model.text_proj(model.text_encoder(**inputs).last_hidden_state[:, 0]))


def _blip2_image(model: Any, inputs: Mapping[str, Any]) -> Any:
    """Average the unit vectors of the query tokens: one vector per image."""
    seen = model.vision_model(**inputs).last_hidden_state
    queries = model.qformer(
        query_embeds=model.query_tokens.expand(len(seen), -1, -1), encoder_hidden_states=seen
    ).last_hidden_state
    return _unit(model.vision_projection(queries.to(model.vision_projection.weight.dtype))).mean(dim=1)


def _blip2_text(model: Any, inputs: Mapping[str, Any]) -> Any:
    read = model.qformer(
        query_embeds=model.embeddings(input_ids=inputs["input_ids"]),
        query_length=0,
        attention_mask=inputs["attention_mask"],
    ).last_hidden_state
    return _unit(model.text_projection(read[:, 0].to(model.text_projection.weight.dtype)))


def _unit(vectors: Any) -> Any:
    import torch

    return torch.nn.functional.normalize(vectors, dim=-1)


PLAIN = FeatureHead(_plain_image, _plain_text)
HEADS: dict[str, FeatureHead] = {
    "BlipForImageTextRetrieval": FeatureHead(_blip_image, _blip_text),
    "Blip2ForImageTextRetrieval": FeatureHead(_blip2_image, _blip2_text),
}
"""Classes that are loaded by name because AutoModel would load another one, without these projections."""

KINDS: dict[str, ReadingKind] = {
    "align": ReadingKind(padding="max_length", length=64),
    "altclip": ReadingKind(length=77, offset=2),
    "blip": ReadingKind(length=35),
    "blip-2": ReadingKind(
        length=32,
        note="BLIP-2 scores an image by the best of its query vectors; here their mean stands for the image.",
    ),
    "chinese_clip": ReadingKind(length=52),
    "clip": ReadingKind(),
    "clipseg": ReadingKind(),
    "siglip": ReadingKind(padding="max_length", length=64, lower=True),
    "siglip2": ReadingKind(padding="max_length", length=64, lower=True),
}
"""By ``model_type`` of the config."""
