"""Any value as valid JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


def to_json(value: object, indent: int | None = None) -> str:
    """Serialise to valid JSON: a float that is not a number becomes null."""
    return json.dumps(plain(value), ensure_ascii=False, indent=indent, allow_nan=False)


def plain(value: Any) -> Any:
    """Turn numpy scalars, tuples, paths and non-finite floats into what JSON knows."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str | int | bool) or value is None:
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    return str(value)
