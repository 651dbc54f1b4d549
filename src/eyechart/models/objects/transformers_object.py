"""A model of transformers that is in memory: it reads and sees as the same model does that is loaded by name."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from eyechart.errors import ModelError, first_line
from eyechart.models.encoders.transformers import TransformersEncoder, check_pair
from eyechart.models.objects.parts import ModelParts
from eyechart.models.towers.checkpoints import LOAD_ERRORS
from eyechart.types import OBJECT, ModelSpec

PRECISIONS = {"torch.float16": "fp16", "torch.bfloat16": "bf16"}


def transformers_encoder(spec: ModelSpec, parts: ModelParts) -> TransformersEncoder:
    """Make an encoder of a model and its processor; without one, the processor of the place that it was loaded from."""
    model = parts.model
    processor = _whole(parts)
    check_pair(type(model).__name__, model, processor)
    types = {str(weight.dtype) for weight in model.parameters() if weight.is_floating_point()}
    # As it is: a model of several types is left so, and gets float32.
    precision = PRECISIONS.get(types.pop(), "fp32") if len(types) == 1 else "fp32"
    as_it_is = replace(spec, device=str(model.device), precision=precision)
    encoder = TransformersEncoder(as_it_is, (model, processor, []))
    encoder.card = replace(encoder.card, family=OBJECT)
    return encoder


def _whole(parts: ModelParts) -> Any:
    """Put the processor together: what the caller gives of it, and the rest as it was saved."""
    own = {"image_processor": parts.preprocess, "tokenizer": parts.tokenizer}
    if own["image_processor"] is not None and not hasattr(own["image_processor"], "to_dict"):
        raise ModelError(
            f"{type(parts.preprocess).__name__} is no image processor, as {type(parts.model).__name__} needs.",
            advice="Give one of transformers; or an object of your own with encode_images and encode_texts.",
        )
    if None not in own.values():
        return SimpleNamespace(**own)
    whole = parts.processor or _saved_beside(parts.model)
    return SimpleNamespace(**{name: getattr(whole, name, None) if part is None else part for name, part in own.items()})


def _saved_beside(model: Any) -> Any:
    """Load the processor that was saved with the model."""
    import transformers

    name, place = type(model).__name__, getattr(model, "name_or_path", "")
    advice = "Give both: a tuple (model, processor)."
    if not place:
        raise ModelError(f"{name} comes without its processor, and was not loaded from anywhere.", advice=advice)
    try:
        return transformers.AutoProcessor.from_pretrained(place)
    except LOAD_ERRORS as error:
        raise ModelError(
            f"{name} comes without its processor, and {place} has none that can be loaded ({first_line(error)}).",
            advice=advice,
        ) from error
