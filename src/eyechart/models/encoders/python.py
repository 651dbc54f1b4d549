"""The ``python`` family: a model of your own, named as ``python:module.path:factory``.

The factory is called with those of ``model_name``, ``pretrained``, ``cache_dir``, ``device``, ``precision`` and
``spec`` that it takes. It returns one of

* an object with ``prepare_image(image)``, ``encode_images(batch)`` and ``encode_texts(texts)``;
* a whole `eyechart.types.Encoder`, card included;
* ``(model, transform, tokenizer)`` as CLIP_benchmark's recipe says: ``model.encode_image(pixels)`` and
  ``model.encode_text(tokenizer(texts).to(device))``.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from eyechart.errors import ModelError, UsageError
from eyechart.models.encoders.behaviour import behaviour
from eyechart.models.encoders.recipe import RecipeEncoder
from eyechart.models.resolve import PYTHON
from eyechart.types import Encoder, ModelCard, ModelSpec

NEEDED = ("encode_images", "encode_texts")
Vectors = NDArray[np.float32]


class PythonFamily:
    """Loads a model from the user's own code."""

    def check(self, spec: ModelSpec) -> None:
        """Refuse a path that is not ``module:factory`` or whose module does not exist; nothing of it is run."""
        module, _ = target_of(spec)
        see_working_folder()
        try:
            found = find_spec(module)
        except ModuleNotFoundError:
            found = None
        if found is None:
            raise UsageError(
                f"There is no Python module {module!r}.",
                advice="It is looked for where Python looks, and in the working folder.",
            )

    def identity(self, spec: ModelSpec) -> None:  # noqa: ARG002 - code may do anything, so it is asked every time
        """Return nothing: what code computes is not known before it runs."""
        return

    def load(self, spec: ModelSpec) -> Encoder:
        """Call the factory and make an encoder of what it returns."""
        factory = find_factory(spec)
        made = factory(**accepted(factory, spec))
        if isinstance(made, tuple) and len(made) == 3:
            return RecipeEncoder(spec, *made)
        if isinstance(made, Encoder):
            return made
        missing = [name for name in NEEDED if not callable(getattr(made, name, None))]
        if missing:
            raise ModelError(
                f"{spec.name}: the factory gave a {type(made).__name__} without {' and '.join(missing)}.",
                advice=f"It must have {' and '.join(NEEDED)}, or be a tuple (model, transform, tokenizer).",
            )
        return OwnEncoder(spec, made)


def target_of(spec: ModelSpec) -> tuple[str, str]:
    """Split ``module.path:factory``."""
    text = str(spec.options.get("factory") or spec.name).removeprefix(PYTHON)
    module, colon, name = text.partition(":")
    if not colon or not module or not name:
        raise UsageError(f"{text!r} is not module.path:factory.", advice="Write for example python:my_models:make.")
    return module, name


def find_factory(spec: ModelSpec) -> Callable[..., Any]:
    """Import the module and return the factory."""
    module, name = target_of(spec)
    see_working_folder()
    found = getattr(import_module(module), name, None)
    if not callable(found):
        raise UsageError(f"The module {module!r} has no function or class {name!r}.")
    factory: Callable[..., Any] = found
    return factory


def accepted(factory: Callable[..., Any], spec: ModelSpec) -> dict[str, Any]:
    """Return those arguments that the factory takes; with ``**kwargs`` it gets those of CLIP_benchmark's recipe."""
    from eyechart.models.towers.torch_tools import choose_device

    parameters = inspect.signature(factory).parameters
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    known: dict[str, Callable[[], Any]] = {
        "model_name": lambda: spec.name,
        "pretrained": lambda: spec.pretrained,
        "cache_dir": lambda: spec.options.get("cache_dir"),
        "device": lambda: choose_device(spec.device),
    }
    ours: dict[str, Callable[[], Any]] = {"precision": lambda: spec.precision, "spec": lambda: spec}
    chosen = {name: make() for name, make in known.items() if takes_any or name in parameters}
    return chosen | {name: make() for name, make in ours.items() if name in parameters}


class OwnEncoder:
    """Completes an object that encodes images and texts: a card, no limit on texts, one kind of array."""

    def __init__(self, spec: ModelSpec, model: Any) -> None:
        self.model = model
        self.takes_language = "language" in inspect.signature(model.encode_texts).parameters
        weights, size, notes = behaviour(self, model)
        own: ModelCard | None = getattr(model, "card", None)
        self.card = own or ModelCard("python", spec.label, weights, "own", spec.precision, size, notes=tuple(notes))

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
        if hasattr(vectors, "detach"):
            vectors = vectors.detach().float().cpu().numpy()
        array = np.asarray(vectors, np.float32)
        if array.ndim != 2 or len(array) != count:
            raise ModelError(
                f"{type(self.model).__name__}.{method} gave shape {array.shape} for {count} inputs.",
                advice="It must give one row per input, in the same order.",
            )
        return array


def see_working_folder() -> None:
    """Let the user's own file be found, after everything that is installed."""
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.append(folder)
