"""Downloading a benchmark's file, checked before it takes its place."""

from __future__ import annotations

import hashlib
from pathlib import Path

from eyechart.errors import DataError
from eyechart.files import atomic_file

TIMEOUT = 60.0
"""Seconds without a byte after which a download is given up."""
BLOCK = 1 << 20


def fetch(url: str, path: Path, md5: str = "") -> Path:
    """Download ``url`` to ``path`` unless it is there; nothing wrong or half ever stands under that name.

    A file that is there is not checked again: whoever put another version there wanted it (its digest is part of the
    result). The digest is checked when it is downloaded.

    Raises:
        DataError: If it cannot be downloaded or is not the file that the catalogue means.
    """
    import httpx2

    if path.is_file():
        return path
    digest = hashlib.md5(usedforsecurity=False)  # the catalogue's digests are MD5
    try:
        with (
            httpx2.stream("GET", url, follow_redirects=True, timeout=TIMEOUT) as response,
            atomic_file(path) as stream,
        ):
            response.raise_for_status()
            for block in response.iter_bytes(BLOCK):
                digest.update(block)
                stream.write(block)
            _check(digest.hexdigest(), md5, url, path)
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        raise DataError(
            f"Cannot download {url} ({str(error) or type(error).__name__}).",
            advice=f"Check the network, or put the file at {path} yourself.",
        ) from error
    return path


def _check(found: str, wanted: str, url: str, path: Path) -> None:
    if wanted and found != wanted:
        raise DataError(
            f"{url} is not the file that is expected: its MD5 digest is {found}, not {wanted}.",
            advice=f"It may have a new version: if you trust it, download it to {path} yourself.",
        )


def file_md5(path: Path) -> str:
    """Return the MD5 digest of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
