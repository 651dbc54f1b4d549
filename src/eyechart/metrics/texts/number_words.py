"""Numbers that a text writes in digits or in English words."""

from __future__ import annotations

import re

SMALL = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
"""The numbers below twenty."""
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_VALUES = (
    {word: i for i, word in enumerate(SMALL)}
    | {word: 10 * i for i, word in enumerate(_TENS, 2)}
    | {"hundred": 100, "thousand": 1000}
)
_WORD = re.compile(r"\b(?:" + "|".join(_VALUES) + r")\b")
_MAX_DIGITS = 30


def only_number(text: str) -> int | None:
    """Return the number of a text that has one: digits, or all its number words together; None for none or several."""
    low = text.lower()
    found = [int(digits) for digits in re.findall(r"\d+", low) if len(digits) <= _MAX_DIGITS]
    words = spelled(_WORD.findall(low))
    found += [] if words is None else [words]
    return found[0] if len(found) == 1 else None


def spelled(words: list[str]) -> int | None:
    """Return the number that words spell: two hundred five; None for none and for zero."""
    total = current = 0
    for word in words:
        value = _VALUES[word]
        if value >= 100:
            total, current = total + max(current, 1) * value, 0
        else:
            current += value
    return total + current or None
