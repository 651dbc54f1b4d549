"""The forms in which VLMEvalKit's models take messages: a text, a dict, or a list of one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from eyechart.datasets.questions.messages import URLS, Item, parse_file

__all__ = ["check_content", "message_to_promptimg", "preproc_content"]

ContentKind = Literal["str", "dict", "liststr", "listdict", "unknown"]
TYPES = ("text", "image", "video")


def check_content(msgs: object) -> ContentKind:
    """Say which form of message this is; an empty list counts as a list of texts."""
    if isinstance(msgs, str):
        return "str"
    if isinstance(msgs, Mapping):
        return "dict"
    if isinstance(msgs, Sequence):
        if all(isinstance(item, str) for item in msgs):
            return "liststr"
        if all(isinstance(item, Mapping) for item in msgs):
            return "listdict"
    return "unknown"


def preproc_content(inputs: object) -> list[Item]:
    """Bring any form of message to a list of ``{"type", "value"}``.

    In a list of texts, a path of an existing image, the URL of one and a data URL are images; in a list of dicts
    the type is given, and must fit: a text that is the path of an image is surely a mistake.

    Raises:
        AssertionError: If the form or a type is not known, or type and value contradict each other, as the original.
    """
    kind = check_content(inputs)
    if kind == "unknown":
        raise AssertionError(f"not a message: {type(inputs).__name__}; expected text, dict, or a list of one of them")
    if isinstance(inputs, str):
        return [{"type": "text", "value": inputs}]
    if isinstance(inputs, Mapping):
        return preproc_content([inputs])
    items = inputs if isinstance(inputs, Sequence) else []
    return [_of_text(item) if isinstance(item, str) else _of_dict(item) for item in items]


def _of_text(text: str) -> Item:
    kind, value = parse_file(text)
    if kind == "url":
        raise AssertionError(_not_fetched(text))
    return {"type": kind, "value": value}


def _not_fetched(url: str) -> str:
    return f"{url!r} is an address, and is not fetched: set {URLS}=1 to allow it for images (.jpg, .png, ...)"


def _of_dict(item: Mapping[str, Any]) -> Item:
    if item.get("type") not in TYPES or not isinstance(item.get("value"), str):
        raise AssertionError(f"a message item has a type ({', '.join(TYPES)}) and a text as value, not {dict(item)!r}")
    kind, value = item["type"], item["value"]
    found, place = parse_file(value)
    if kind == "text":
        if found == "image":
            raise AssertionError(f"the text {value!r} is the path of an image: is its type meant to be image?")
        return {**item, "value": value}
    if found == "url":
        raise AssertionError(_not_fetched(value))
    if found != kind:
        raise AssertionError(f"{value!r} is not an existing {kind} file, URL or data URL")
    return {**item, "value": place}


def message_to_promptimg(message: Sequence[Item], *, mark_images: bool = False) -> tuple[str, str | None]:
    """Return one text and the first image, for models that take no more.

    Texts are joined by line ends. With ``mark_images``, two images or more leave a line ``<image>`` where they
    stood, as VLMEvalKit's API models do it.
    """
    images = [item["value"] for item in message if item["type"] == "image"]
    shown = mark_images and len(images) > 1
    lines = [
        "<image>" if item["type"] == "image" else item["value"] for item in message if item["type"] == "text" or shown
    ]
    return "\n".join(lines), images[0] if images else None
