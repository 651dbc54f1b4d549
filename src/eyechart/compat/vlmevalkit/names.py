"""Small helpers that recipes for VLMEvalKit import from its ``smp`` module. Nothing is evaluated."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from eyechart.metrics.cells import literal_list


def listinstr(parts: Iterable[str], text: str) -> bool:
    """Tell whether one of the parts occurs in a text."""
    return any(part in text for part in parts)


def istype(text: str, kind: type) -> bool:
    """Tell whether a text is the literal of a value of a type, such as a list or an integer."""
    if kind is list:
        return literal_list(text) is not None
    try:
        return len(text) < 100 and isinstance(ast.literal_eval(text), kind)
    except (ValueError, SyntaxError):
        return False
