"""What a family of models must offer, whatever its models do: encode, generate or rerank."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from eyechart.errors import ModelError, UsageError, unknown_name
from eyechart.types import ModelSpec

COMMON_OPTIONS = frozenset({"cache_dir", "revision", "hub", "trust_remote_code", "compile"})
"""Options with flags of their own."""
_KINDS = {bool: "true or false", int: "a whole number above 0", str: "a text", dict: "an object of JSON"}


@runtime_checkable
class Family(Protocol):
    """A kind of model that can be loaded by name."""

    def check(self, spec: ModelSpec) -> None:
        """Refuse what cannot be loaded (missing library, unknown name, missing file) without loading anything."""

    def identity(self, spec: ModelSpec) -> str | None:
        """Return a text that changes whenever the model would, or None if that is not known without loading.

        It must cover the content of every file that is read (`eyechart.models.identity`): by it a model that was
        loaded before is known again, with all that was stored for it.
        """

    def load(self, spec: ModelSpec) -> Any:
        """Load the model: an `Encoder`, a `Generator` or a `Reranker`."""


def check_options(family: object, name: str, options: Mapping[str, Any]) -> None:
    """Refuse options that a family does not have, and values of another kind than it takes.

    Its ``own_options`` say what it has; a family without them takes any.

    Raises:
        UsageError: If there is no such option, or not with such a value.
    """
    known: Mapping[str, Any] | None = getattr(family, "own_options", None)
    if known is None:
        return
    for key, value in options.items():
        if key not in {*known, *COMMON_OPTIONS}:
            raise unknown_name(f"option of the model type {name}", key, known)
        kind = known.get(key, object)
        if not isinstance(value, kind) or (kind is int and (value is True or value < 1)):
            raise UsageError(f"The option {key} cannot be {value!r}.", advice=f"It takes {_KINDS[kind]}.")


@runtime_checkable
class Remote(Protocol):
    """A family whose models run elsewhere."""

    def probe(self, spec: ModelSpec) -> None:
        """See that the model can be reached, before a long run begins: is the server up, does it take the key?"""


def check_path(text: str) -> None:
    """Refuse something that is written like a path but does not exist."""
    looks_like_path = text.startswith((".", "/", "~")) or text.endswith(
        (".pt", ".pth", ".bin", ".safetensors", ".onnx")
    )
    if looks_like_path and not Path(text).expanduser().exists():
        raise ModelError(f"There is no checkpoint {text}.", advice="Check the path after --pretrained.")
