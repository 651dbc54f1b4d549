"""Modules in evaluation mode while they are measured, and afterwards as they were: somebody may be training them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from eyechart.models.objects.parts import ModelParts


@contextmanager
def evaluation_mode(things: Iterable[Any]) -> Iterator[None]:
    """Switch dropout and the like off in all torch modules among some objects, and back at the end."""
    roots = [module for thing in things for module in _roots(thing)]
    before = [(module, module.training) for root in roots for module in root.modules()]
    try:
        for root in roots:
            root.eval()
        yield
    finally:
        for module, training in before:
            module.training = training


def _roots(thing: Any) -> Iterator[Any]:
    """Yield the torch modules of an object: itself, or those in its attributes."""
    if isinstance(thing, ModelParts):
        thing = thing.model
    for part in thing if isinstance(thing, tuple) else (thing,):
        inside = vars(part).values() if hasattr(part, "__dict__") and not _is_module(part) else ()
        yield from filter(_is_module, (part, *inside))


def _is_module(thing: Any) -> bool:
    torch: Any = sys.modules.get("torch")
    return torch is not None and isinstance(thing, torch.nn.Module)
