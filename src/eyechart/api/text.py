"""Foreign text made safe to keep and to print."""

from __future__ import annotations


def whole(text: str) -> str:
    """Replace surrogates that have lost their pair: JSON allows them, UTF-8 files do not."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def one_line(text: str, limit: int) -> str:
    """Cut a text for a message: one line, no control characters (they can drive a terminal), at most `limit` long."""
    text = " ".join("".join(c if c.isprintable() else " " for c in text[:100_000]).split())
    return text if len(text) <= limit else f"{text[:limit]}..."
