"""Images in tables: base64 in cells, files on disk."""

from __future__ import annotations

import base64
import binascii
import secrets
from pathlib import Path

from eyechart.errors import DataError
from eyechart.io.media import MAX_BYTES, decode_image

SHARED = 64
"""An image cell of at most this many characters names another row, whose image it shares."""


def decode_cell(text: str, source: str) -> bytes:
    """Return the encoded image of a base64 cell; a data URL's head is dropped."""
    body = text.rpartition(";base64,")[2] if text.startswith("data:") else text
    if len(body) > MAX_BYTES * 4 // 3 + 4:
        raise DataError(f"{source}: the image has more than {MAX_BYTES} bytes.")
    try:
        return base64.b64decode(body, validate=False)
    except (binascii.Error, ValueError) as error:
        raise DataError(f"{source}: the image is not base64 ({error}).") from error


def write_image(text: str, path: Path, source: str) -> None:
    """Write a base64 cell's image to a file unless that very file is there.

    The bytes are kept as they are, and decoded once to see that they are an image of a decent size.
    """
    data = decode_cell(text, source)
    if path.is_file() and path.stat().st_size == len(data) and path.read_bytes() == data:
        return
    decode_image(data, source)
    # In one step, but not flushed to disk: an image that a crash spoils is found different, and written again.
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".tmp-{secrets.token_hex(6)}{path.suffix}")
    aside.write_bytes(data)
    aside.replace(path)
