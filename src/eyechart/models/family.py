"""What a family of models must offer, whatever its models do: encode, generate or rerank."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from eyechart.errors import ModelError
from eyechart.types import ModelSpec


@runtime_checkable
class Family(Protocol):
    """A kind of model that can be loaded by name."""

    def check(self, spec: ModelSpec) -> None:
        """Refuse what cannot be loaded (missing library, unknown name, missing file) without loading anything."""
        ...

    def identity(self, spec: ModelSpec) -> str | None:
        """Return a text that changes whenever the model would, or None if that is not known without loading.

        It must cover the content of every file that is read (`eyechart.models.identity`): by it a model that was
        loaded before is known again, with all that was stored for it.
        """
        ...

    def load(self, spec: ModelSpec) -> Any:
        """Load the model: an `Encoder`, a `Generator` or a `Reranker`."""
        ...


@runtime_checkable
class Remote(Protocol):
    """A family whose models run elsewhere."""

    def probe(self, spec: ModelSpec) -> None:
        """See that the model can be reached, before a long run begins: is the server up, does it take the key?"""
        ...


def check_path(text: str) -> None:
    """Refuse something that is written like a path but does not exist."""
    looks_like_path = text.startswith((".", "/", "~")) or text.endswith(
        (".pt", ".pth", ".bin", ".safetensors", ".onnx")
    )
    if looks_like_path and not Path(text).expanduser().exists():
        raise ModelError(f"There is no checkpoint {text}.", advice="Check the path after --pretrained.")
