"""Whether what a generator said can stand for an image, and if not, why."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable

from eyechart.io.untrusted import MAX_TEXT
from eyechart.types import Answer, Notice

REFUSED = frozenset({"refusal", "content_filter"})
"""Finish reasons of an answer that was held back."""
THINKING = "<think>"
LONG_TOKENS = 512
"""What most text encoders read of a document; the rest of a longer caption cannot be found."""
_LETTERS_PER_TOKEN = 4
_SHOWN = 200
_BLANK = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Letters and symbols that are drawn as nothing."""


def what_is_wrong(answer: Answer) -> str:
    """Say why an answer is no caption; empty if it is one. What the model said instead is quoted."""
    if answer.error:
        return answer.error
    said = answer.refusal or (answer.text.strip() if answer.finish_reason in REFUSED else "")
    if said or answer.finish_reason in REFUSED:
        words = f": {_quoted(said)}" if said else f" (finish_reason {answer.finish_reason})"
        return f"The model refuses to describe it{words}."
    if not is_visible(answer.text):
        hidden = " but for characters that nobody sees" if answer.text.strip() else ""
        return f"The caption is empty{hidden}{_because(answer)}."
    if answer.text.lstrip().startswith(THINKING):  # what was thought to its end has been split off
        return f"The model was cut while it was thinking, before it said anything{_because(answer)}."
    if len(answer.text) > MAX_TEXT:
        return f"The caption has {len(answer.text)} characters, more than the limit of {MAX_TEXT}."
    return ""


def _because(answer: Answer) -> str:
    return f" (finish_reason {answer.finish_reason})" if answer.finish_reason not in ("", "stop") else ""


def is_visible(text: str) -> bool:
    """Tell whether a text has a character that is seen: a letter, a digit, a mark or a symbol."""
    return any(unicodedata.category(letter)[0] in "LNPS" and letter not in _BLANK for letter in text)


def estimated_tokens(text: str) -> int:
    """Estimate the tokens of a text: one for four letters, and one for each character of Chinese and the like."""
    plain = sum(letter.isascii() for letter in text)
    return -(-plain // _LETTERS_PER_TOKEN) + len(text) - plain


def caption_notices(answers: Iterable[Answer]) -> list[Notice]:
    """Count the captions of which a part is missing, or will not be read."""
    captions = list(answers)
    cut = sum(answer.finish_reason == "length" for answer in captions)
    long = sum(estimated_tokens(answer.text) > LONG_TOKENS for answer in captions)
    texts = Counter(answer.text.strip() for answer in captions)
    alike = sum(count for count in texts.values() if count > 1)
    common = texts.most_common(1)[0][0] if alike else ""
    found = [
        Notice(
            "equal_captions",
            alike,
            f"{alike} captions are no image's alone, most often {_quoted(common)}: a search cannot tell these images "
            "apart.",
        ),
        Notice("cut_captions", cut, f"{cut} captions were cut at the longest answer."),
        Notice(
            "long_captions",
            long,
            f"{long} captions have more than about {LONG_TOKENS} tokens: most text encoders do not read their ends.",
        ),
    ]
    return [notice for notice in found if notice.count]


def _quoted(text: str) -> str:
    line = " ".join(text.split())
    return repr(line if len(line) <= _SHOWN else f"{line[:_SHOWN]}...")
