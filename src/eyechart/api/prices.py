"""What tokens cost, by a table of the user's own: prices change, so none are built in.

    currency = "USD"

    ["gpt-4o"]
    prompt = 2.50       # for a million tokens
    completion = 10.00

    ["*"]               # every other model
    prompt = 0
    completion = 0

The same as JSON: {"currency": "USD", "gpt-4o": {"prompt": 2.5, "completion": 10}}.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from eyechart.errors import UsageError
from eyechart.io.untrusted import is_number, parse_json, read_text

MILLION = 1_000_000
OTHERS = "*"
"""Stands for every model that the table does not name."""
_PARTS = ("prompt", "completion")


@dataclass(frozen=True, slots=True)
class Price:
    """What a million tokens of a model cost."""

    prompt: float
    completion: float
    currency: str = "USD"

    def cost(self, usage: Mapping[str, float]) -> float:
        """Return what prompt_tokens and completion_tokens cost together."""
        total = self.prompt * usage.get("prompt_tokens", 0) + self.completion * usage.get("completion_tokens", 0)
        return round(total / MILLION, 6)


def find_price(table: str, model: str) -> Price | None:
    """Look a model up in a file of prices; nothing without a file, or if it has no line for the model.

    Raises:
        UsageError: If the file cannot be read.
    """
    if not table:
        return None
    prices = _read(Path(table))
    return prices.get(model, prices.get(OTHERS))


@cache
def _read(path: Path) -> Mapping[str, Price]:
    try:
        text = read_text(path, UsageError)
        content = tomllib.loads(text) if path.suffix.lower() == ".toml" else parse_json(text)
    except ValueError as error:
        raise UsageError(f"{path} is no table of prices ({error}).", advice="It is TOML (.toml) or JSON.") from error
    if not isinstance(content, dict):
        raise UsageError(f"{path} is no table of prices.", advice="It maps names of models to prices.")
    currency = content.pop("currency", "USD")
    return {name: _price(path, name, entry, str(currency)) for name, entry in content.items()}


def _price(path: Path, name: str, entry: Any, currency: str) -> Price:
    entry = entry if isinstance(entry, dict) else {}
    unknown = sorted(set(entry) - set(_PARTS))
    values = [entry.get(part, 0) for part in _PARTS]
    if unknown or not entry or not all(is_number(value) and value >= 0 for value in values):
        raise UsageError(
            f"{path}: the price of {name!r} is not understood.",
            advice="It needs prompt and completion: two numbers, for a million tokens each.",
        )
    prompt, completion = map(float, values)
    return Price(prompt, completion, currency)
