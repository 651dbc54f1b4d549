"""What a run has asked of an API, in a line for the log and the table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def spent_line(details: Mapping[str, Any]) -> str:
    """Write what `StoredAnswers.spent` counted for people; nothing if nothing was asked."""
    if not details.get("requests"):
        return ""
    counts = [
        f"{details[name]:,} {word}"
        for name, word in (
            ("requests", "requests"),
            ("prompt_tokens", "prompt tokens"),
            ("completion_tokens", "completion tokens"),
        )
        if name in details
    ]
    cost = f", {details['cost']:,.4f} {details['currency']}" if "cost" in details else ""
    stored = f" ({details['from_store']:,} answers were stored before)" if details.get("from_store") else ""
    return f"{', '.join(counts)}{cost}{stored}"
