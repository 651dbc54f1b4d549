"""Downloading a benchmark's file: it goes on where it stopped, and is checked before it takes its place."""

from __future__ import annotations

from pathlib import Path

from eyechart.datasets.remote.download import alone, client_for, download, read_head
from eyechart.errors import DataError
from eyechart.io.progress import NoProgress


def fetch(url: str, path: Path, md5: str = "") -> Path:
    """Download ``url`` to ``path`` unless it is there; nothing wrong or half ever stands under that name.

    A file that is there is not checked again: whoever put another version there wanted it (its content is part of the
    result's identity). The digest is checked when it is downloaded.

    Raises:
        DataError: If it cannot be downloaded or is not the file that the catalogue means.
    """
    if path.is_file():
        return path
    try:
        client = client_for(url)
        head = read_head(client, url)
        if head is None:
            raise DataError(f"There is no file at {url}.")
        with alone(path):
            if not path.is_file():
                download(client, url, path, head, NoProgress(), md5=md5)
    except DataError as error:
        raise DataError(error.message, advice=f"{error.advice} Or put the file at {path} yourself.".strip()) from error
    return path
