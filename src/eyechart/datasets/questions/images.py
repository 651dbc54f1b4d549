"""Images in tables: base64 in cells, files on disk."""

from __future__ import annotations

import base64
import binascii
import os
import secrets
from pathlib import Path

from eyechart.errors import DataError
from eyechart.io.digests import digest_bytes
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


def write_image(text: str, path: Path, source: str) -> Path:
    """Write a base64 cell's image to a file unless that very file is there, and return its path.

    The bytes are kept as they are, and decoded once to see that they are an image of a decent size. A file that holds
    another image is left alone, and this one gets a name of its own: whoever was told a path, in another process on a
    table of the same name, say, finds there what was meant.
    """
    data = decode_cell(text, source)
    own = path.with_stem(f"{path.stem}-{digest_bytes(data).hex()}")
    found = next((place for place in (path, own) if _holds(place, data)), None)
    if found is not None:
        return found
    decode_image(data, source)
    # In one step, but not flushed to disk: an image that a crash spoils is found different, and written again.
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".tmp-{secrets.token_hex(6)}{path.suffix}")
    aside.write_bytes(data)
    try:
        os.link(aside, path)  # unlike a renaming, it replaces nothing
        aside.unlink()
    except OSError:  # there is another image, or a file system without links
        aside.replace(own)
        return own
    return path


def _holds(path: Path, data: bytes) -> bool:
    return path.is_file() and path.stat().st_size == len(data) and path.read_bytes() == data
