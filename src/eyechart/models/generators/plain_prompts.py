"""Prompts of models that were trained on images and one text, and so have no chat template (PaliGemma)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eyechart.errors import DataError

Chat = list[dict[str, Any]]
PLAIN = frozenset({"paligemma"})
"""Model types whose processors take images and a text that starts with a mark for each of them."""


def check_plain(chat: Chat) -> Chat:
    """Return a conversation that can be a plain prompt: one turn of the user, with an image.

    Raises:
        DataError: If it is something else; it is then this question's error.
    """
    if any(turn["role"] == "assistant" for turn in chat):
        raise DataError("The model answers one question; it cannot hold a conversation.")
    if not _of(chat, "image"):
        raise DataError("The model needs an image: it cannot answer a text alone.")
    return chat


def plain_inputs(processor: Any, chats: Sequence[Chat]) -> Any:
    """Make a model's input: the images of each prompt, and its texts, a line each, behind as many marks."""
    images = [_of(chat, "image") for chat in chats]
    lines = ["\n".join(_of(chat, "text")) for chat in chats]
    texts = [processor.image_token * len(shown) + line for shown, line in zip(images, lines, strict=True)]
    return processor(images=images, text=texts, padding=True, return_tensors="pt")


def _of(chat: Chat, kind: str) -> list[Any]:
    return [part[kind] for turn in chat for part in turn["content"] if part["type"] == kind]
