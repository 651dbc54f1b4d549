"""``clip_benchmark.model_collection``: lists of models by name."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from eyechart.models.model_collections import collection_names, expand_collection

__all__ = ["get_model_collection_from_file", "model_collection"]  # noqa: F822 - made when it is asked for


def get_model_collection_from_file(path: str) -> list[list[str]]:
    """Read pairs of model and pretrained, one a line with a comma between them."""
    return [line.strip().split(",") for line in Path(path).read_text(encoding="utf-8").splitlines()]


@cache
def _collections() -> dict[str, list[tuple[str, str]]]:
    return {name: expand_collection(name) or [] for name in collection_names()}


def __getattr__(name: str) -> Any:
    if name == "model_collection":  # it asks open_clip for all that it has
        return _collections()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
