"""The ``python`` family of generators: any class with ``generate(message, dataset)``, by entry point or module path."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any

from eyechart import plugins
from eyechart.errors import UsageError
from eyechart.io.media import ImageRef
from eyechart.metrics.answers import split_thinking
from eyechart.models.generators.family import Access
from eyechart.types import Answer, Message, ModelCard, ModelSpec, digest_json
from eyechart.vlm.models import CHAT_FAILED, FAILED

PREFIX = "python:"


class PythonFamily:
    """Models from ``module:Class``, or from a name that a package registered under ``eyechart.vlms``.

    ``options``: the keyword arguments of the class, and ``dataset``, which its methods are told.
    """

    def check(self, spec: ModelSpec) -> None:
        """Refuse what cannot be imported or has no ``generate``."""
        if not callable(getattr(find_class(spec.name), "generate", None)):
            raise UsageError(f"{spec.name} has no method generate.", advice="Extend eyechart.vlm.BaseModel.")

    def probe(self, spec: ModelSpec, access: Access) -> None:
        """Nothing is known of where such a model runs."""

    def identity(self, spec: ModelSpec) -> str | None:
        """Not known without loading: the class decides what it loads."""
        return None

    def load(self, spec: ModelSpec, access: Access) -> PythonGenerator:
        """Make the model."""
        return PythonGenerator(spec)


class PythonGenerator:
    """A model of VLMEvalKit's form as a generator."""

    def __init__(self, spec: ModelSpec) -> None:
        made = find_class(spec.name)
        options = dict(spec.options)
        self.dataset: str | None = options.pop("dataset", None)
        options.pop("settings", None)
        self.model = made(**options)
        self.card = ModelCard(
            family="python",
            name=spec.name,
            weights_digest=digest_json([spec.name, _source(made)]),
            transform=digest_json(dict(spec.options)),
            precision="unknown",
            notes=("what the class loads is not known: delete stored answers when its weights change",),
        )

    def custom_prompt(self, dataset: str, dump_image: Callable[[Any], list[str]]) -> Callable[[Any], Any] | None:
        """Return the model's own way to ask a dataset's questions, if it has one."""
        if hasattr(self.model, "set_dump_image"):
            self.model.set_dump_image(dump_image)
        uses = getattr(self.model, "use_custom_prompt", None)
        return partial(self._prompt, dataset) if uses is not None and uses(dataset) else None

    def _prompt(self, dataset: str, line: Any) -> Any:
        return self.model.build_prompt(line, dataset=dataset)

    def generate(self, messages: Sequence[Message]) -> Answer:
        """Answer one conversation; what the model raises is this conversation's error."""
        try:
            said = self._ask(messages)
        except Exception as error:  # noqa: BLE001 - somebody else's code: its failure is recorded, the run goes on
            return Answer("", error=f"{type(error).__name__}: {error}")
        text = said["prediction"] if isinstance(said, dict) and "prediction" in said else said
        if not isinstance(text, str):
            return Answer("", error=f"generate returned {type(text).__name__}, not a text")
        if text.startswith((FAILED, CHAT_FAILED)):
            return Answer("", error=text)
        answer, thinking = split_thinking(text)
        return Answer(answer, thinking=thinking)

    def _ask(self, messages: Sequence[Message]) -> Any:
        if len(messages) == 1 or (len(messages) == 2 and messages[0].role == "system"):
            marks = [{"role": "system"} if turn.role == "system" else {} for turn in messages]
            items = [_item(part) | mark for turn, mark in zip(messages, marks, strict=True) for part in turn.parts]
            return self.model.generate(items, dataset=self.dataset)
        turns = [{"role": turn.role, "content": [_item(part) for part in turn.parts]} for turn in messages]
        return self.model.chat(turns, dataset=self.dataset)


def _item(part: str | ImageRef) -> dict[str, str]:
    if isinstance(part, str):
        return {"type": "text", "value": part}
    return {"type": "image", "value": str(part.path)}


def find_class(name: str) -> Any:
    """Import a class from ``module:Class`` or from a registered name."""
    module, colon, attribute = name.removeprefix(PREFIX).partition(":")
    if not colon:
        return plugins.load("vlms", name)
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"Cannot import {name!r} ({error}).", advice="Write module:Class; the module must be importable from here."
        ) from error


def _source(made: Any) -> str:
    try:
        return inspect.getsource(made)
    except (OSError, TypeError):
        return ""
