"""Values that a text writes as JSON or as Python: read, never evaluated, and only up to a size and a depth."""

from __future__ import annotations

import ast
import json
import re
import warnings

MAX_LENGTH = 200_000
MAX_DEPTH = 40
_FENCE = re.compile(r"```[a-zA-Z]*\s*(.*?)```", re.DOTALL)


def unfenced(text: str) -> str:
    """Return what stands in the first fence of three backticks, or the text."""
    found = _FENCE.search(text)
    return (found[1] if found else text).strip()


def read_literal(text: str) -> object:
    """Return the value of a JSON or Python literal; None where it is none, or too large to be an answer."""
    if len(text) > MAX_LENGTH or _depth(text) > MAX_DEPTH:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        with warnings.catch_warnings():  # '\d' in an answer is data, not a mistake in our source code
            warnings.simplefilter("ignore")
            return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _depth(text: str) -> int:
    deepest = depth = 0
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        deepest = max(deepest, depth)
    # Signs before a number nest as well: ------1.
    return max(deepest, max((len(run) for run in re.findall(r"[-+~]+", text)), default=0))


def numbers(value: object) -> list[float]:
    """Return the numbers of a flat list or tuple; nothing where it holds anything else."""
    if not isinstance(value, list | tuple) or any(isinstance(v, bool) or not isinstance(v, int | float) for v in value):
        return []
    return [float(v) for v in value]
