"""Prompts as tables and dataset classes write them, ``{"type", "value"}`` by item, as the messages of a generator."""

from __future__ import annotations

import hashlib
import mimetypes
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from eyechart.datasets.questions.download import fetch
from eyechart.datasets.questions.folders import lmu_data_root
from eyechart.datasets.questions.images import write_image
from eyechart.errors import DataError, UsageError
from eyechart.io.media import ImageRef
from eyechart.io.untrusted import MAX_TEXT
from eyechart.types import Message, Part, Speaker

Item = dict[str, str]
URLS = "EYECHART_IMAGE_URLS"
"""Set to 1, this variable allows to fetch images that data name by their address. Without it nothing is fetched: an
address in a dataset is a request that its author makes from inside your network."""


def parse_file(text: str) -> tuple[str, str]:
    """Return type and value of a text that may be a path, a URL or a data URL; anything else is a text.

    Images in data URLs are written once, to ``$LMUData/files``; so are those behind URLs, if `URLS` allows it.
    """
    if text.startswith("data:image/") and ";base64," in text[:100]:
        name = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
        path = lmu_data_root() / "files" / f"{name}.png"
        return "image", str(write_image(text, path, "data URL"))
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


def to_messages(prompt: Any, where: str) -> tuple[Message, ...]:
    """Turn a dataset's prompt, a text, one turn or a conversation, into what generators take.

    Raises:
        DataError: If it is something else.
    """
    if isinstance(prompt, str):
        return (Message("user", _parts(prompt, where)),)
    if not isinstance(prompt, Sequence) or not prompt or not all(isinstance(item, Mapping) for item in prompt):
        raise DataError(f"{where}: a prompt is a text or a list of items with type and value, not {prompt!r:.200}.")
    if prompt and "role" in prompt[0] and "content" in prompt[0]:
        return tuple(Message(turn["role"], _parts(turn["content"], where)) for turn in prompt)
    roles: list[tuple[Speaker, list[Mapping[str, Any]]]] = []
    for item in prompt:
        role: Speaker = "system" if item.get("role") == "system" else "user"
        if not roles or roles[-1][0] != role:
            roles.append((role, []))
        roles[-1][1].append(item)
    return tuple(Message(role, _parts(items, where)) for role, items in roles)


def _parts(content: Any, where: str) -> tuple[Part, ...]:
    items = [{"type": "text", "value": content}] if isinstance(content, str) else content
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
