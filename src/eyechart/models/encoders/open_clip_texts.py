"""How the tokenizers of open_clip read: their settings, their length, their languages."""

from __future__ import annotations

import re
from typing import Any

from eyechart.errors import ModelError
from eyechart.languages import find_same


def nllb_code(language: str, tokenizer: Any) -> str:
    """Return NLLB's name of a language; one that it does not know is an error, never another language."""
    known = [token for token in tokenizer.get_vocab() if re.fullmatch(r"[a-z]{3}_[A-Z][a-z]{3}", token)]
    code = find_same(language, known)
    if code is None:
        raise ModelError(
            f"This model's tokenizer has no language {language!r}.",
            advice="Give a code of FLORES-200, such as zho_Hans, or its short form, such as zh.",
        )
    return code


def describe_tokenizer(tokenizer: Any) -> str:
    """Name what decides how texts are read: class, length, cleaning."""
    clean = getattr(getattr(tokenizer, "clean_fn", None), "__name__", "")
    return f"{type(tokenizer).__name__}({getattr(tokenizer, 'context_length', None)}{clean})"


def count_tokens(tokenizer: Any, text: str) -> int:
    """Count the tokens of one text as open_clip's tokenizers make them, before they cut."""
    inner = getattr(tokenizer, "tokenizer", None)
    if inner is None:
        return len(tokenizer.encode(text)) + 2
    clean = getattr(tokenizer, "clean_fn", None)
    cleaned = clean(text) if clean is not None else text
    if getattr(tokenizer, "tokenizer_mode", "") == "clips":
        return len(inner(cleaned, add_special_tokens=False, verbose=False)["input_ids"]) + 3
    return len(inner(cleaned, verbose=False)["input_ids"])
