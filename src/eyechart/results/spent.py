"""What a run has taken of models that are paid by the token, in lines for the log, the table and the page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_COUNTS = ("requests", "prompt_tokens", "completion_tokens")


def spent_lines(details: Mapping[str, Any]) -> list[str]:
    """Write what ``details.spent`` says of the model and of each judge; nothing of those that took nothing."""
    spent = details.get("spent", {})
    parts = {"model": spent.get("model", {}), **spent.get("judges", {})}
    return [f"{name}: {line}" for name, part in parts.items() if (line := _line(part))]


def _line(part: Mapping[str, Any]) -> str:
    """Write what this run has asked; where all answers were stored, the tokens that they took once."""
    counts = part if part.get("requests") else part.get("tokens_of_answers", {})
    words = [f"{counts[name]:,} {name.replace('_', ' ')}" for name in _COUNTS if counts.get(name)]
    if words and "cost" in part:
        words.append(f"{part['cost']:,.4f} {part['currency']}")
    stored = f" ({part['from_store']:,} answers were stored before)" if words and part.get("from_store") else ""
    return f"{', '.join(words)}{stored}"
