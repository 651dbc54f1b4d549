"""What an object consists of: the model itself, how its images are prepared, and how its texts become tokens."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from PIL import Image

from eyechart.errors import ModelError

METHODS = ("encode_images", "encode_texts", "encode_image", "encode_text", "get_image_features", "get_text_features")
"""What makes an object a model."""
ACCEPTED = (
    "A model is a name, an object with encode_images(list of images) and encode_texts(list of str), a torch module "
    "with encode_image and encode_text, a model of transformers or sentence-transformers, or a tuple "
    "(model, preprocess, tokenizer)."
)
PREPROCESS = (
    *("preprocess", "preprocess_val", "image_transform", "val_transform", "transform"),
    *("image_processor", "processor"),
)
TOKENIZER = ("tokenizer", "tokenize", "processor")
"""Where modules keep them."""


@dataclass(frozen=True)
class ModelParts:
    """A model and what belongs to it; None for what is not there."""

    model: Any
    preprocess: Any = None
    tokenizer: Any = None
    processor: Any = None
    """Both in one, as transformers has it."""


def parts_of(thing: Any) -> ModelParts:
    """Take an object apart.

    Raises:
        ModelError: If it is no model, or a tuple without one.
    """
    parts = thing if isinstance(thing, ModelParts) else None
    if parts is None:
        parts = _sorted_out(thing) if isinstance(thing, tuple) else ModelParts(thing)
    elif isinstance(parts.model, tuple):
        own = _sorted_out(parts.model)
        named = {key: value for key in ("preprocess", "tokenizer", "processor") if (value := getattr(parts, key))}
        parts = replace(own, **named)
    if isinstance(parts.model, type):
        name = parts.model.__name__
        raise ModelError(f"{name} is a class.", advice=f"Give an object of it: {name}(...).")
    if not is_model(parts.model):
        raise ModelError(f"{_named(parts.model)} is no model.", advice=ACCEPTED)
    return parts


def is_model(thing: Any) -> bool:
    """Tell whether an object can encode something."""
    return is_sentence_transformer(thing) or any(callable(getattr(thing, name, None)) for name in METHODS)


def is_sentence_transformer(thing: Any) -> bool:
    """Tell whether it is a model of sentence-transformers."""
    library: Any = sys.modules.get("sentence_transformers")
    return library is not None and isinstance(thing, library.SentenceTransformer)


def is_transformers(thing: Any) -> bool:
    """Tell whether it is a model of transformers."""
    library: Any = sys.modules.get("transformers")
    return library is not None and isinstance(thing, library.PreTrainedModel)


def found_on(model: Any, names: Iterable[str]) -> Any:
    """Return the first of a model's attributes that can be called."""
    return next((part for name in names if callable(part := getattr(model, name, None))), None)


def _sorted_out(things: tuple[Any, ...]) -> ModelParts:
    """Find out which part of a tuple is what, by what it does: libraries return them in different orders."""
    given = [thing for thing in things if thing is not None]
    models = [thing for thing in given if is_model(thing)]
    if len(models) != 1:
        names = ", ".join(_named(thing) for thing in given)
        raise ModelError(f"The tuple ({names}) holds {len(models)} models.", advice=ACCEPTED)
    found: dict[str, list[Any]] = {"processor": [], "tokenizer": [], "preprocess": []}
    for thing in given:
        if thing is not models[0]:
            found[_role_of(thing)].append(thing)
    transforms = found["preprocess"]
    # open_clip gives the transform of training before that of evaluation.
    steady = [thing for thing in transforms if "Random" not in repr(thing)] or transforms
    return ModelParts(models[0], *(_last(things) for things in (steady, found["tokenizer"], found["processor"])))


def _last(things: list[Any]) -> Any:
    return things[-1] if things else None


def _role_of(thing: Any) -> str:
    """Say what a part is for: by its attributes if they are plain, else by what it makes of a text and of an image."""
    if hasattr(thing, "image_processor") and hasattr(thing, "tokenizer"):
        return "processor"
    if any(hasattr(thing, name) for name in ("vocab_size", "context_length", "encode")):
        return "tokenizer"
    if any(hasattr(thing, name) for name in ("transforms", "image_mean")):
        return "preprocess"
    if _does(thing, ["a photo of a cat"]):
        return "tokenizer"
    if _does(thing, Image.fromarray(np.zeros((64, 64, 3), np.uint8))):
        return "preprocess"
    raise ModelError(
        f"{_named(thing)} takes neither a list of texts nor an image.",
        advice="Beside the model, a tuple holds how images are prepared and how texts become tokens.",
    )


def _does(thing: Callable[[Any], Any], item: Any) -> bool:
    try:
        thing(item)
    except Exception:  # noqa: BLE001 - somebody else's function may raise anything at what it does not expect
        return False
    return True


def _named(thing: Any) -> str:
    return f"{type(thing).__name__} {thing!r:.40}" if isinstance(thing, str | int | float) else type(thing).__name__
