"""Downloading a benchmark's file: it goes on where it stopped, and is checked before it takes its place."""

from __future__ import annotations

import hashlib
from pathlib import Path

from eyechart.api.transport import is_loopback
from eyechart.datasets.remote.download import download, read_head, refuse_inward
from eyechart.errors import DataError
from eyechart.io.files import sync_folder
from eyechart.io.progress import NoProgress, Progress

UNCHECKED = ".unchecked"
TIMEOUT = 60.0
"""Seconds without a byte after which a connection is given up."""


def fetch(url: str, path: Path, md5: str = "", progress: Progress | None = None) -> Path:
    """Download ``url`` to ``path`` unless it is there; nothing wrong or half ever stands under that name.

    A file that is there is not checked again: whoever put another version there wanted it (its content is part of the
    result's identity). The digest is checked when it is downloaded.

    Raises:
        DataError: If it cannot be downloaded or is not the file that the catalogue means.
    """
    import httpx2

    if path.is_file():
        return path
    arrived = path.with_name(path.name + UNCHECKED)
    try:
        hooks = {"response": [refuse_inward]}
        with httpx2.Client(
            follow_redirects=True, timeout=TIMEOUT, trust_env=not is_loopback(url), event_hooks=hooks
        ) as client:
            head = read_head(client, url)
            if head is None:
                raise DataError(f"There is no file at {url}.")
            download(client, url, arrived, head, progress or NoProgress())
    except DataError as error:
        raise DataError(error.message, advice=f"{error.advice} Or put the file at {path} yourself.".strip()) from error
    found = file_md5(arrived)
    if md5 and found != md5:
        arrived.unlink()
        raise DataError(
            f"{url} is not the file that is expected: its MD5 digest is {found}, not {md5}.",
            advice=f"It may have a new version: if you trust it, download it to {path} yourself.",
        )
    arrived.replace(path)
    sync_folder(path.parent)
    return path


def file_md5(path: Path) -> str:
    """Return the MD5 digest of a file: the kind of digest that the catalogue has."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
