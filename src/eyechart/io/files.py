"""Writing files so that a reader sees the old one or the new one, never half of one; and where caches live."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import IO, Any, BinaryIO

from eyechart.errors import EyechartError

TEMPORARY = ".tmp-"
"""Every unfinished file of ours has this prefix; whoever finds an old one may delete it."""
UNFINISHED = ".part"
"""And this suffix: what a killed run leaves behind must not be taken for a result by any tool."""

NOTES = ".eyechart"
"""The folder that each downloaded dataset has, with a note for each file that was asked for: its version and digest."""


class CacheError(EyechartError):
    """The cache folder cannot be written."""


@contextmanager
def atomic_file(path: Path, *, durable: bool = True) -> Iterator[BinaryIO]:
    """Open a temporary file beside ``path`` that takes its place, whole and flushed to disk, when the block ends.

    If the block raises, the temporary file is removed and ``path`` is as it was. What is not ``durable`` still appears
    whole, but may be gone after a power cut: flushing takes milliseconds, which not everything is worth.
    """
    make_folder(path.parent)
    temporary = path.parent / f"{TEMPORARY}{os.getpid()}-{secrets.token_hex(6)}-{path.name[-100:]}{UNFINISHED}"
    try:
        with temporary.open("xb") as stream:
            yield stream
            stream.flush()
            if durable:
                os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        sync_folder(path.parent)


def write_atomic(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Write ``data`` to ``path`` at once."""
    with atomic_file(path, durable=durable) as stream:
        stream.write(data)


_keeps = ContextVar("keeps", default=True)


@contextmanager
def keeping_nothing() -> Iterator[None]:
    """Leave the cache as it is: what would be remembered there is found out again."""
    token = _keeps.set(False)
    try:
        yield
    finally:
        _keeps.reset(token)


def write_cached(path: Path, data: bytes) -> None:
    """Write a file of the cache at once, unless nothing is to be kept.

    Raises:
        CacheError: If the disk is full or the folder cannot be written.
    """
    if not _keeps.get():
        return
    with explained("cache", path.parent):
        write_atomic(path, data)


@contextmanager
def explained(what: str, folder: Path) -> Iterator[None]:
    """Turn a disk that is full, or a folder that cannot be written, into a `CacheError` with advice."""
    try:
        yield
    except OSError as error:
        raise CacheError(
            f"Cannot write to the {what} at {folder} ({error.strerror}).",
            advice="Free some space, or set EYECHART_CACHE to a folder that can be written. "
            "What was stored so far is kept.",
        ) from error


def sync_folder(folder: Path) -> None:
    """Make a rename in ``folder`` durable, where the system knows how (Windows does not)."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def cache_root() -> Path:
    """Return the cache folder: ``$EYECHART_CACHE``, else ``eyechart`` under ``$XDG_CACHE_HOME`` or ``~/.cache``."""
    return _cache_root(*map(os.environ.get, ("EYECHART_CACHE", "XDG_CACHE_HOME", "HOME")))


@cache
def _cache_root(own: str | None, base: str | None, home: str | None) -> Path:  # noqa: ARG001 - home: asked by Path
    if own:
        return Path(own).expanduser()
    return (Path(base) if base else Path.home() / ".cache") / "eyechart"


def make_folder(path: Path, *, private: bool = False) -> Path:
    """Create a folder and its parents; one that is private (embeddings, answers), or of our cache, for its owner only.

    ``mkdir(parents=True)`` would give parents the mode of any other folder.
    """
    if not path.is_dir():
        missing = [folder for folder in (path, *path.parents) if not folder.exists()]
        for folder in reversed(missing):
            folder.mkdir(exist_ok=True, mode=0o700 if private or folder.is_relative_to(cache_root()) else 0o777)
        path.mkdir(exist_ok=True)
    return path


def open_plain(path: Path, mode: str, encoding: str | None = None) -> IO[Any]:
    """Open a file unless its name is a symbolic link, which somebody may have put there and which leads anywhere."""
    return open(path, mode, encoding=encoding, opener=_no_links)


def _no_links(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)
