"""Modules in evaluation mode while they are measured, and afterwards as they were: somebody may be training them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import FunctionType, ModuleType
from typing import Any

from eyechart.models.objects.parts import ModelParts

DEEP = 4
"""How far modules are looked for: attributes of attributes, lists in dicts."""
_lock = threading.Lock()
_measured: dict[int, tuple[Any, int, bool]] = {}
"""Modules that are measured now: in how many calls, and whether they were in training mode before the first."""


@contextmanager
def evaluation_mode(things: Iterable[Any]) -> Iterator[None]:
    """Switch dropout and the like off in all torch modules among some objects, and back at the end.

    A module that several threads measure goes back when the last of them has done.
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
    """Yield the torch modules among objects and in what they hold."""
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
