"""Converts prompts in VLMEvalKit's form, ``{"type", "value"}`` items, to messages for generators."""

import hashlib
import mimetypes
import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from eyechart.datasets.questions.benchmark_files import lmu_data_root, write_image
from eyechart.datasets.remote.download import client_for, is_internal, request
from eyechart.datasets.row_dataset import located
from eyechart.errors import DataError, UsageError
from eyechart.io.files import write_atomic
from eyechart.io.images import ImageRef, decode_image
from eyechart.io.safe_parse import MAX_TEXT, is_file
from eyechart.io.secrets import redact_url
from eyechart.types import Message, MessageRole, Part

Item = dict[str, str]
URLS = "EYECHART_IMAGE_URLS"
"""Environment variable that, set to 1, allows fetching image URLs found in data. It is off by default because such a
URL lets the author of a dataset send requests from inside your network."""
WEB = ("http://", "https://")


def parse_file(text: str, *, fetches: bool = False) -> tuple[str, str]:
    """Return type and value of a text that may be a path, a URL or a data URL; anything else is text.

    Images of data URLs are written once, to ``$LMUData/files``. With ``fetches`` so are images behind URLs: for URLs
    that the caller's code passes. URLs in data go through `image_in_data`.
    """
    if text.startswith("data:image/") and ";base64," in text[:100]:
        name = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
        path = lmu_data_root() / "files" / f"{name}.png"
        return "image", str(write_image(text, path, "data URL"))
    if text.startswith(WEB) and len(text) < 4096 and not any(map(str.isspace, text)):
        suffix = Path(urlsplit(text).path).suffix.lower()
        if not fetches or _media(f"x{suffix}") != "image":
            return "url", text
        name = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
        path = lmu_data_root() / "files" / f"{name}{suffix}"
        if not path.is_file():
            response = request(client_for(text), "GET", text)
            if response is None:
                raise DataError("There is no file at {address}.", address=redact_url(text))
            decode_image(response[1], redact_url(text))  # must be an image before it is kept
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, response[1])
        return "image", str(path)
    named = 0 < len(text) <= 1024 and not {"\n", "\0"} & set(text) and is_file(Path(text))
    return (_media(text) if named else None) or "text", text


def image_in_data(value: str) -> str:
    """Return the file of an image that data give by path, data URL or, if `URLS` allows it, public URL."""
    if not value.startswith((*WEB, "data:")):
        return value
    if value.startswith(WEB) and os.environ.get(URLS) == "1" and is_internal(urlsplit(value).hostname or ""):
        raise DataError("the image {value!r} is not on a public server, and is not fetched.", value=value[:200])
    found, path = parse_file(value, fetches=os.environ.get(URLS) == "1")
    if found != "image":
        raise DataError(
            "the image {value!r} is a URL, and URLs in data are not fetched.",
            advice="Embed the image in the table, put it next to the table, or set {urls}=1 if you trust the data.",
            value=value[:200],
            urls=URLS,
        )
    return path


def _media(path: str) -> str | None:
    """Return ``image`` or ``video`` by the suffix of a path, None for anything else."""
    kind = (mimetypes.guess_type(path)[0] or "").partition("/")[0]
    return kind if kind in ("image", "video") else None


def to_messages(prompt: Any, where: str) -> tuple[Message, ...]:
    """Convert a prompt (a text, one turn or a conversation) to messages."""
    if isinstance(prompt, str):
        prompt = [{"type": "text", "value": prompt}]
    with located(where):
        if not isinstance(prompt, Sequence) or not prompt or not all(isinstance(item, Mapping) for item in prompt):
            raise DataError(
                "a prompt must be a text or a list of items with type and value, not {prompt!r:.200}.", prompt=prompt
            )
        if "role" in prompt[0] and "content" in prompt[0]:
            return tuple(Message(turn["role"], _parts(turn["content"])) for turn in prompt)
        return tuple(Message(role, _parts(items)) for role, items in groupby(prompt, _role))


def _role(item: Mapping[str, Any]) -> MessageRole:
    return "system" if item.get("role") == "system" else "user"


def _parts(content: str | Iterable[Mapping[str, Any]]) -> tuple[Part, ...]:
    return tuple(map(_part, [{"type": "text", "value": content}] if isinstance(content, str) else content))


def _part(item: Mapping[str, Any]) -> Part:
    kind, value = item.get("type"), str(item.get("value", ""))
    if kind == "text":
        if len(value) > MAX_TEXT:
            raise DataError("a text of {n} characters exceeds the limit of {most}.", n=len(value), most=MAX_TEXT)
        return value
    if kind != "image":
        raise UsageError("prompts support text and images, not {kind!r}.", kind=kind)
    value = image_in_data(value)
    if not Path(value).is_absolute():
        # A relative path that the dataset could not find must not be resolved against the working directory.
        raise DataError("image {value!r} not found in the benchmark's image folder.", value=value)
    return ImageRef.from_path(Path(value))
