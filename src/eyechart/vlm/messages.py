"""Messages as VLMEvalKit's models take them: texts, dicts and lists of both, with paths, URLs and data URLs."""

from __future__ import annotations

import hashlib
import mimetypes
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from eyechart.errors import DataError, UsageError
from eyechart.io.media import ImageRef
from eyechart.io.untrusted import MAX_TEXT
from eyechart.types import Message, Part, Role
from eyechart.vlm.download import fetch
from eyechart.vlm.folders import lmu_data_root
from eyechart.vlm.images import write_image

Item = dict[str, str]
Kind = Literal["str", "dict", "liststr", "listdict", "unknown"]
TYPES = ("text", "image", "video")
URLS = "EYECHART_IMAGE_URLS"
"""Set to 1, this variable allows to fetch images that data name by their address. Without it nothing is fetched: an
address in a dataset is a request that its author makes from inside your network."""


def check_content(msgs: object) -> Kind:
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
    return {"type": kind, "value": value}


def _of_dict(item: Mapping[str, Any]) -> Item:
    if item.get("type") not in TYPES or not isinstance(item.get("value"), str):
        raise AssertionError(f"a message item has a type ({', '.join(TYPES)}) and a text as value, not {dict(item)!r}")
    kind, value = item["type"], item["value"]
    found, place = parse_file(value)
    if kind == "text":
        if found == "image":
            raise AssertionError(f"the text {value!r} is the path of an image: is its type meant to be image?")
        return {**item, "value": value}
    if found != kind:
        raise AssertionError(f"{value!r} is not an existing {kind} file, URL or data URL")
    return {**item, "value": place}


def parse_file(text: str) -> tuple[str, str]:
    """Return type and value of a text that may be a path, a URL or a data URL; anything else is a text.

    Images in data URLs are written once, to ``$LMUData/files``; so are those behind URLs, if `URLS` allows it.
    """
    if text.startswith("data:image/") and ";base64," in text[:100]:
        name = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
        path = lmu_data_root() / "files" / f"{name}.png"
        write_image(text, path, "data URL")
        return "image", str(path)
    if text.startswith(("http://", "https://")) and len(text) < 4096 and not any(map(str.isspace, text)):
        suffix = Path(urlsplit(text).path).suffix.lower()
        if _media(f"x{suffix}") == "image" and os.environ.get(URLS) == "1":
            name = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
            return "image", str(fetch(text, lmu_data_root() / "files" / f"{name}{suffix}"))
        return "url", text
    if _is_file(text):
        return _media(text) or "text", text
    return "text", text


def _is_file(text: str) -> bool:
    if not text or len(text) > 1024 or "\n" in text or "\0" in text:
        return False
    try:
        return Path(text).is_file()
    except OSError:
        return False


def _media(path: str) -> str | None:
    """Return image or video by a path's suffix, None for anything else."""
    kind = (mimetypes.guess_type(path)[0] or "").partition("/")[0]
    return kind if kind in ("image", "video") else None


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


def to_messages(prompt: Sequence[Mapping[str, Any]], where: str) -> tuple[Message, ...]:
    """Turn a dataset's prompt, one turn or a conversation, into what generators take."""
    if prompt and "role" in prompt[0] and "content" in prompt[0]:
        return tuple(Message(turn["role"], _parts(turn["content"], where)) for turn in prompt)
    roles: list[tuple[Role, list[Mapping[str, Any]]]] = []
    for item in prompt:
        role: Role = "system" if item.get("role") == "system" else "user"
        if not roles or roles[-1][0] != role:
            roles.append((role, []))
        roles[-1][1].append(item)
    return tuple(Message(role, _parts(items, where)) for role, items in roles)


def _parts(content: Any, where: str) -> tuple[Part, ...]:
    items = preproc_content(content) if isinstance(content, str) else content
    return tuple(_part(item, where) for item in items)


def _part(item: Mapping[str, Any], where: str) -> Part:
    kind, value = item.get("type"), str(item.get("value", ""))
    if kind == "text":
        if len(value) > MAX_TEXT:
            raise DataError(f"{where}: a text of {len(value)} characters, more than the limit of {MAX_TEXT}.")
        return value
    if kind != "image":
        raise UsageError(f"{where}: a prompt holds texts and images, not {kind!r}.")
    if value.startswith(("http://", "https://", "data:")):
        found, value = parse_file(value)
        if found != "image":
            raise DataError(
                f"{where}: the image {value[:200]!r} is an address, and addresses in data are not fetched.",
                advice=f"Put the image into the table or beside it, or set {URLS}=1 if you trust the data.",
            )
    path = Path(value)
    if not path.is_absolute():
        # A relative path that the dataset could not find must not be looked for in whatever folder we are started.
        raise DataError(f"{where}: there is no image {value!r} in the benchmark's image folder.")
    return ImageRef.from_path(path)
