"""The parts of a model object: the model itself, its image preprocessing and its tokenizer."""

import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from types import FunctionType, ModuleType
from typing import Any

from PIL import Image

from eyechart.errors import ModelError

METHODS = ("encode_images", "encode_texts", "encode_image", "encode_text", "get_image_features", "get_text_features")
"""An object with one of these methods is a model."""
ACCEPTED = (
    "A model is a name, an object with encode_images(list of images) and encode_texts(list of str), a torch module "
    "with encode_image and encode_text, a model of transformers or sentence-transformers, or a tuple "
    "(model, preprocess, tokenizer)."
)
NEEDED = {
    "preprocess": "encode_image preprocess preprocess_val image_transform val_transform transform image_processor "
    "processor",
    "tokenizer": "encode_text tokenizer tokenize processor",
}
"""Parts of a module: the method that needs one, and the attributes under which modules keep it."""


@dataclass(frozen=True)
class ModelParts:
    """A model and its parts; None for absent ones."""

    model: Any
    preprocess: Any = None
    tokenizer: Any = None
    processor: Any = None
    """Preprocessing and tokenizer in one, as in transformers."""


def parts_of(thing: Any) -> ModelParts:
    """Find the parts of an object."""
    parts = thing if isinstance(thing, ModelParts) else ModelParts(thing)
    if isinstance(parts.model, tuple):
        named = {key: value for key in ("preprocess", "tokenizer", "processor") if (value := getattr(parts, key))}
        parts = replace(_parts_of_tuple(parts.model), **named)
    if isinstance(parts.model, type):
        name = parts.model.__name__
        raise ModelError("{name} is a class.", advice="Pass an instance: {name}(...).", name=name)
    if not is_model(parts.model):
        raise ModelError("{model} is not a model.", advice=ACCEPTED, model=_label(parts.model))
    return parts


def is_model(thing: Any) -> bool:
    """Whether an object has a method that encodes."""
    return is_sentence_transformer(thing) or has_method(thing, *METHODS)


def has_method(model: Any, *names: str) -> bool:
    """Whether a model has one of these methods."""
    return any(callable(getattr(model, name, None)) for name in names)


def is_module(model: Any) -> bool:
    """Whether a model encodes tensors: ``encode_image`` or ``encode_text``."""
    return has_method(model, "encode_image", "encode_text")


def takes_lists(parts: ModelParts) -> bool:
    """Whether a model encodes lists: ``encode_images`` or ``encode_texts``.

    One that also has the methods of modules is a module if its preprocessing or tokenizer is passed with it.
    """
    alone = parts == ModelParts(parts.model)
    return has_method(parts.model, "encode_images", "encode_texts") and (alone or not is_module(parts.model))


def check_parts(parts: ModelParts) -> None:
    """Raise if a part is missing, or was passed with a model that does not use it."""
    if takes_lists(parts) or is_sentence_transformer(parts.model):
        if parts != ModelParts(parts.model):
            raise ModelError(
                "{type} takes raw images and texts, so preprocess, tokenizer and processor do not apply.",
                advice="Omit them, or pass them with the model that they belong to: (model, preprocess, tokenizer).",
                type=type(parts.model).__name__,
            )
    elif not is_transformers(parts.model):
        complete(parts)


def complete(parts: ModelParts) -> ModelParts:
    """Add preprocessing and tokenizer from attributes of the module if they were not passed."""
    found: dict[str, Any] = {}
    for argument, (method, *names) in ((argument, text.split()) for argument, text in NEEDED.items()):
        kept = (part for name in names if callable(part := getattr(parts.model, name, None)))
        found[argument] = getattr(parts, argument) or parts.processor or next(kept, None)
        if has_method(parts.model, method) and found[argument] is None:
            raise ModelError(
                "{type} has {method} but no {argument}.",
                advice="Pass {argument}=..., or a tuple (model, preprocess, tokenizer).",
                type=type(parts.model).__name__,
                method=method,
                argument=argument,
            )
    return replace(parts, **found)


def is_sentence_transformer(thing: Any) -> bool:
    """Whether it is a sentence-transformers model."""
    library: Any = sys.modules.get("sentence_transformers")
    return library is not None and isinstance(thing, library.SentenceTransformer)


def is_transformers(thing: Any) -> bool:
    """Whether it is a transformers model."""
    library: Any = sys.modules.get("transformers")
    return library is not None and isinstance(thing, library.PreTrainedModel)


def _parts_of_tuple(things: tuple[Any, ...]) -> ModelParts:
    """Determine the role of each part of a tuple by its behaviour: libraries return them in different orders."""
    given = [thing for thing in things if thing is not None]
    models = [thing for thing in given if is_model(thing)]
    if len(models) != 1:
        names = ", ".join(_label(thing) for thing in given)
        raise ModelError("The tuple ({names}) contains {n} models.", advice=ACCEPTED, names=names, n=len(models))
    found: dict[str, list[Any]] = {"processor": [], "tokenizer": [], "preprocess": []}
    for thing in given:
        if thing is not models[0]:
            found[_role_of(thing)].append(thing)
    transforms = found["preprocess"]
    # open_clip returns the training transform before the evaluation transform.
    steady = [thing for thing in transforms if "Random" not in repr(thing)] or transforms
    last = (things[-1] if things else None for things in (steady, found["tokenizer"], found["processor"]))
    return ModelParts(models[0], *last)


def _role_of(thing: Any) -> str:
    """Return the role of a part: by its attributes if they are distinctive, else by the inputs it accepts."""
    if hasattr(thing, "image_processor") and hasattr(thing, "tokenizer"):
        return "processor"
    if any(hasattr(thing, name) for name in ("vocab_size", "context_length", "encode")):
        return "tokenizer"
    if any(hasattr(thing, name) for name in ("transforms", "image_mean")):
        return "preprocess"
    for role, item in (("tokenizer", ["a photo of a cat"]), ("preprocess", Image.new("RGB", (64, 64)))):
        with suppress(Exception):  # user code may raise anything
            thing(item)
            return role
    raise ModelError(
        "{thing} takes neither a list of texts nor an image.",
        advice="Besides the model, a tuple contains the image preprocessing and the tokenizer.",
        thing=_label(thing),
    )


def _label(thing: Any) -> str:
    return f"{type(thing).__name__} {thing!r:.40}" if isinstance(thing, str | int | float) else type(thing).__name__


DEEP = 4
"""Depth of the search for modules: attributes of attributes, lists in dicts."""
_lock = threading.Lock()
_measured: dict[int, tuple[Any, int, bool]] = {}
"""Modules in use: number of active calls, and whether they were in training mode before the first."""


@contextmanager
def evaluation_mode(things: Iterable[Any]) -> Iterator[None]:
    """Put all torch modules held by the objects into evaluation mode, and restore their modes at the end.

    A module used by several threads is restored when the last of them finishes.
    """
    roots = list(_roots([thing.model if isinstance(thing, ModelParts) else thing for thing in things]))
    modules = {id(module): module for root in roots for module in root.modules()}
    with _lock:
        for key, module in modules.items():
            _, calls, training = _measured.get(key, (module, 0, module.training))
            _measured[key] = (module, calls + 1, training)
        for root in roots:
            root.eval()
    try:
        yield
    finally:
        with _lock:
            for key, module in modules.items():
                _, calls, training = _measured.pop(key)
                if calls > 1:
                    _measured[key] = (module, calls - 1, training)
                else:
                    module.training = training


def _roots(things: list[Any]) -> Iterator[Any]:
    """Yield the outermost torch modules among objects and their attributes."""
    torch: Any = sys.modules.get("torch")
    seen: dict[int, Any] = {}
    for _ in range(DEEP if torch is not None else 0):
        new = [thing for thing in things if id(thing) not in seen]
        seen |= {id(thing): thing for thing in new}
        yield from (thing for thing in new if isinstance(thing, torch.nn.Module))
        things = [part for thing in new if not isinstance(thing, torch.nn.Module) for part in _held(thing)]


def _held(thing: Any) -> Iterator[Any]:
    if isinstance(thing, list | tuple | set):
        yield from thing
    elif isinstance(thing, Mapping):
        yield from thing.values()
    elif hasattr(thing, "__dict__") and not isinstance(thing, type | ModuleType | FunctionType):
        for owner in (thing, *type(thing).__mro__):
            yield from vars(owner).values() if hasattr(owner, "__dict__") else ()
