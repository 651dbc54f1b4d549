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
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from eyechart.errors import ModelError, UsageError
from eyechart.models.encoders.own import OwnEncoder
from eyechart.models.encoders.recipe import RecipeEncoder
from eyechart.plugins import own_object, see_working_folder, split_own
from eyechart.types import Encoder, ModelSpec

NEEDED = ("encode_images", "encode_texts")
WORD = "model"


class PythonFamily:
    """Loads a model from the user's own code."""

    def check(self, spec: ModelSpec) -> None:
        """Refuse a path that is not ``module:factory`` or whose module does not exist; nothing of it is run."""
        module, _ = split_own(target_of(spec), WORD)
        see_working_folder()
        try:
            found = sys.modules.get(module) or find_spec(module)  # a script's own functions are in __main__
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
        factory = own_object(target_of(spec), WORD)
        if not callable(factory):
            raise UsageError(f"{target_of(spec)} is a {type(factory).__name__}, not a function or class.")
        made = factory(**accepted(factory, spec))
        if isinstance(made, tuple) and len(made) == 3:
            return RecipeEncoder(spec, factory, *made)
        missing = [name for name in NEEDED if not callable(getattr(made, name, None))]
        if missing:
            raise ModelError(
                f"{spec.name}: the factory gave a {type(made).__name__} without {' and '.join(missing)}.",
                advice=f"It must have {' and '.join(NEEDED)}, or be a tuple (model, transform, tokenizer).",
            )
        return OwnEncoder(spec, factory, made)


def target_of(spec: ModelSpec) -> str:
    """Return ``module.path:factory``."""
    return str(spec.options.get("factory") or spec.name)


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
