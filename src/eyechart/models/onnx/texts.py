"""How an exported text tower reads: what its files say of length, padding and cleaning, and nothing else.

A tower without an attention mask reads the padding too. Then another length, or another token to fill it with, gives
another vector, and nothing would show that it is the wrong one.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eyechart.errors import ModelError
from eyechart.io.untrusted import is_number
from eyechart.models.encoders.transformers_kinds import KINDS, ReadingKind
from eyechart.models.onnx.parts import Parts

NO_LIMIT = 100_000
"""A tokenizer without a real limit reports an absurdly large one."""
READS_AT_END = ("clip", "clipseg")
"""Architectures whose text tower never looks behind the end token: padding does not matter."""
CANONICAL = ("SiglipTokenizer",)
"""Tokenizers whose class removes punctuation in Python, which no ``tokenizer.json`` repeats."""
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True)
class TextReading:
    """What is done with texts before they reach the tower."""

    length: int
    """Tokens that are read."""
    padded: int | None
    """Tokens that a row is filled up to; None for the longest text of the batch."""
    pad: int
    left: bool
    lower: bool
    canonical: bool

    def clean(self, texts: Sequence[str]) -> list[str]:
        """Write texts as the model was trained on them."""
        lowered = [text.lower() for text in texts] if self.lower else list(texts)
        if not self.canonical:
            return lowered
        return [re.sub(r"\s+", " ", text.translate(_NO_PUNCTUATION)).strip() for text in lowered]

    def pad_rows(self, rows: Sequence[Sequence[int]]) -> dict[str, NDArray[np.int64]]:
        """Put rows of tokens into one array."""
        length = self.padded or max(1, *map(len, rows))
        ids = np.full((len(rows), length), self.pad, np.int64)
        mask = np.zeros((len(rows), length), np.int64)
        for i, row in enumerate(rows):
            place = slice(length - len(row), length) if self.left else slice(0, len(row))
            ids[i, place], mask[i, place] = row, 1
            mask[i, 0] |= not row
        return {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}


def read_texts(
    parts: Parts, options: Mapping[str, Any], tokenizer: Any, inputs: Sequence[str], axis: int | None
) -> TextReading:
    """Find out how texts are read.

    Args:
        parts: The files.
        options: What the user said: ``context_length``.
        tokenizer: As it was saved.
        inputs: The names of the tower's inputs.
        axis: The length that the tower was exported with, if it was fixed.
    """
    architecture = str(parts.config.get("model_type", ""))
    kind = KINDS.get(architecture)
    masked = "attention_mask" in inputs
    length = _length(parts, options, tokenizer, kind, axis)
    padded = _padded(tokenizer, kind, axis, length)
    if padded is None and not masked and architecture not in READS_AT_END:
        raise ModelError(
            f"{parts.text} takes no attention mask, and nothing says to what length its texts are padded.",
            advice="Put the config.json of the exported model beside the tokenizer, or export a fixed length.",
        )
    if padded is not None and padded < length:
        raise ModelError(
            f"{parts.tokenizer} pads texts to {padded} tokens, but {length} are read.",
            advice=f"Read no more than that: --model_option context_length={padded}.",
        )
    pad = _pad(parts, tokenizer)
    if pad is None and not masked:
        raise ModelError(
            f"{parts.text} takes no attention mask, and nothing says which token its texts are padded with.",
            advice="Put the tokenizer_config.json of the exported model beside the tokenizer.",
        )
    side = (tokenizer.padding or {}).get("direction") or parts.settings.get("padding_side") or "right"
    return TextReading(
        length=length,
        padded=padded,
        pad=pad or 0,
        left=str(side).lower() == "left",
        lower=bool(parts.settings.get("do_lower_case") or (kind is not None and kind.lower)),
        canonical=parts.settings.get("tokenizer_class") in CANONICAL,
    )


def _length(
    parts: Parts, options: Mapping[str, Any], tokenizer: Any, kind: ReadingKind | None, axis: int | None
) -> int:
    """Return how many tokens are read: as asked, else as the export says; never more than the tower takes."""
    config = parts.config.get("text_config") or parts.config
    said = (
        options.get("context_length"),
        parts.card.get("context_length"),
        kind.length if kind is not None else None,
        axis,
        (tokenizer.truncation or {}).get("max_length"),
        parts.settings.get("model_max_length"),
        config.get("max_position_embeddings"),
    )
    wrong = next((value for value in said if value and (not is_number(value) or value < 1)), None)
    if wrong is not None:
        raise ModelError(f"{parts.tokenizer.parent}: the context length cannot be {wrong!r}.")
    length = next((int(value) for value in said if value and value < NO_LIMIT), None)
    if length is None:
        raise ModelError(
            f"Nothing says how many tokens {parts.text} reads.",
            advice="Put the tokenizer_config.json of the exported model beside the tokenizer, or give "
            "--model_option context_length=77.",
        )
    return min(length, axis) if axis else length


def _padded(tokenizer: Any, kind: ReadingKind | None, axis: int | None, length: int) -> int | None:
    """Return the length that every row is filled up to."""
    if axis is not None:
        return axis
    if kind is not None:
        return length if kind.padding == "max_length" else None
    saved: int | None = (tokenizer.padding or {}).get("length")
    return saved


def _pad(parts: Parts, tokenizer: Any) -> int | None:
    """Return the token that fills a row."""
    if tokenizer.padding:
        return int(tokenizer.padding["pad_id"])
    named = parts.settings.get("pad_token")
    text = named.get("content") if isinstance(named, dict) else named
    found: int | None = tokenizer.token_to_id(text) if isinstance(text, str) else None
    config = parts.config.get("text_config") or {}
    return found if found is not None else config.get("pad_token_id", parts.config.get("pad_token_id"))
