"""The ``python`` family of generators: any class with ``generate(message, dataset)``, by module path or by name."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from eyechart.errors import DataError, EyechartError, ModelError, UsageError
from eyechart.io.code import code_digest
from eyechart.io.files import cache_root, write_cached
from eyechart.io.media import ImageRef
from eyechart.metrics.answers import split_thinking
from eyechart.metrics.texts.choices import CHAT_FAILED, FAILED
from eyechart.models.identity import place_digest
from eyechart.models.registry import OWN_GENERATORS
from eyechart.plugins import PYTHON
from eyechart.types import Answer, Message, ModelCard, ModelSpec, digest_json

_OURS = ("dataset", "settings", "factory")
"""Options that are not the class's own arguments."""

_UNKNOWN = (
    "what the class itself loads is not known: name its weights by --model_option, or delete the folder responses of "
    "the cache when they change"
)


class PythonGeneratorFamily:
    """Classes of VLMEvalKit's form: ``python:module:Class``, or a name that a package registered.

    ``options``: the keyword arguments of the class, and ``dataset``, the benchmark's name, which its methods are told.
    """

    wants_benchmark = True

    def check(self, spec: ModelSpec) -> None:
        """Refuse what cannot be imported or has no ``generate``."""
        if not callable(getattr(find_class(spec.name), "generate", None)):
            raise UsageError(f"{spec.name} has no method generate.", advice="Extend eyechart.vlm.BaseModel.")

    def identity(self, spec: ModelSpec) -> str | None:
        """Digest the code of the class and what it imports of one's own, the options, and the files that they name."""
        try:
            made = find_class(spec.name)
        except UsageError:
            return None  # there is no such class: `check` says so, and stored predictions need none
        return digest_json([code_digest(made), dict(spec.options), _named_files(spec)])

    def load(self, spec: ModelSpec) -> PythonGenerator:
        """Make the model."""
        return PythonGenerator(spec)


def _named_files(spec: ModelSpec) -> list[str]:
    """Digest what lies where an option points: weights, a folder of a model."""
    values = (value for _, value in sorted(spec.options.items()) if isinstance(value, str | Path) and value)
    return [place_digest(Path(value)) for value in values if os.path.exists(value)]  # noqa: PTH110 - a long text is no path


class PythonGenerator:
    """A model of VLMEvalKit's form as a generator."""

    def __init__(self, spec: ModelSpec) -> None:
        made = find_class(spec.name)
        self.name = spec.name
        self.dataset: str | None = spec.options.get("dataset")
        try:
            self.model = made(**{key: value for key, value in spec.options.items() if key not in _OURS})
        except EyechartError:
            raise
        except Exception as error:
            raise ModelError(
                f"{spec.name} cannot be made: {type(error).__name__}: {error}",
                advice="Its arguments are given by --model_option KEY=VALUE.",
            ) from error
        self.card = ModelCard(
            family="python",
            name=spec.name,
            weights_digest=digest_json([spec.name, code_digest(made), _named_files(spec)]),
            transform=digest_json(dict(spec.options)),
            precision="unknown",
            notes=(_UNKNOWN,),
        )

    def custom_prompt(self, dataset: str, image_paths: Callable[[Any], list[str]]) -> Callable[[Any], Any] | None:
        """Return the model's own way to ask a dataset's questions, if it has one."""
        if hasattr(self.model, "set_dump_image"):
            self.model.set_dump_image(image_paths)
        uses = getattr(self.model, "use_custom_prompt", None)
        return partial(self._build_prompt, dataset=dataset) if uses is not None and uses(dataset) else None

    def _build_prompt(self, line: Any, dataset: str) -> Any:
        """Let the model ask; what it raises is this question's error."""
        try:
            return self.model.build_prompt(line, dataset=dataset)
        except EyechartError:
            raise
        except Exception as error:
            raise DataError(f"{self.name}.build_prompt failed: {type(error).__name__}: {error}") from error

    def check_chat(self) -> None:
        """Refuse conversations if the class cannot hold them.

        Raises:
            ModelError: If it has no ``chat_inner``, or no ``chat`` where it does not extend a base class.
        """
        extends = hasattr(self.model, "generate_inner")
        if not callable(getattr(self.model, "chat_inner" if extends else "chat", None)):
            raise ModelError(
                f"{self.name} cannot hold a conversation.",
                advice="Write chat_inner(message, dataset), which gets all turns, the user's last.",
            )

    def generate(self, messages: Sequence[Message]) -> Answer:
        """Answer one conversation; what the model raises is this conversation's error."""
        try:
            said = self._answer(messages)
        except EyechartError:
            raise
        except Exception as error:  # noqa: BLE001 - somebody else's code: its failure is recorded, the run goes on
            return Answer("", error=f"{type(error).__name__}: {error}")
        if getattr(self.model, "gave_up", False):
            return Answer("", error=f"no try succeeded: {said}")
        text = said["prediction"] if isinstance(said, dict) and "prediction" in said else said
        if not isinstance(text, str):
            return Answer("", error=f"generate returned {type(text).__name__}, not a text")
        if text.startswith((FAILED, CHAT_FAILED)):
            return Answer("", error=text)
        answer, thinking = split_thinking(text)
        return Answer(answer, thinking=thinking)

    def _answer(self, messages: Sequence[Message]) -> Any:
        if len(messages) == 1 or (len(messages) == 2 and messages[0].role == "system"):
            marks = [{"role": "system"} if turn.role == "system" else {} for turn in messages]
            items = [_item(part) | mark for turn, mark in zip(messages, marks, strict=True) for part in turn.parts]
            return self.model.generate(items, dataset=self.dataset)
        self.check_chat()
        turns = [{"role": turn.role, "content": [_item(part) for part in turn.parts]} for turn in messages]
        return self.model.chat(turns, dataset=self.dataset)


def _item(part: str | ImageRef) -> dict[str, str]:
    if isinstance(part, str):
        return {"type": "text", "value": part}
    return {"type": "image", "value": str(part.path if part.path and not part.box else _written(part))}


def _written(image: ImageRef) -> Path:
    """Write an image that is no file of its own, or only a part of one, for a class that takes paths."""
    path = cache_root() / "images" / f"{image.digest().hex()}.png"
    if not path.is_file():
        stream = io.BytesIO()
        image.decode().save(stream, "PNG")
        write_cached(path, stream.getvalue())
    return path


def find_class(name: str) -> Any:
    """Return the class behind ``python:module:Class``, ``module:Class`` or a registered name."""
    return OWN_GENERATORS.load(f"{PYTHON}{name.removeprefix(PYTHON)}" if ":" in name else name)
