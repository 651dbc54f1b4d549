"""Digests of files, remembered: a file that looks untouched is not read again.

Untouched means the same size, time of change, time of status change, inode and device. The time of change alone can be
set by anybody (rsync -t, tar, a reproducible build); the time of status change cannot. What was changed within the
last seconds before it was read is not remembered: a second change would look like the first.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from eyechart.errors import DataError
from eyechart.io.files import cache_root, write_cached
from eyechart.io.untrusted import DAMAGED

DIGEST_SIZE = 16
SETTLED = 2_000_000_000
"""Nanoseconds since its last change after which a file counts as settled."""
_FORM = 1
_BLOCK = 1 << 20

State = list[int]
"""Size, time of change, time of status change, inode and device of a file."""


def digest_bytes(data: bytes) -> bytes:
    """Return the 16-byte BLAKE2b digest that names content in the stores."""
    return hashlib.blake2b(data, digest_size=DIGEST_SIZE).digest()


def file_digest(path: Path) -> bytes:
    """Return the digest of a file's content, from memory if the file is as it was.

    Raises:
        DataError: If it cannot be read.
    """
    return _books(cache_root()).digest(path)


def files_digest(files: Iterable[Path], root: Path) -> str:
    """Return one digest of the names (below ``root``) and contents of files, in any order."""
    state = hashlib.blake2b(digest_size=DIGEST_SIZE)
    for path in sorted(files):
        state.update(os.path.relpath(path, root).encode("utf-8", "surrogateescape") + b"\0" + file_digest(path))
    return state.hexdigest()


def remember_digests() -> None:
    """Keep what was learnt for the next run; what is lost is only read again."""
    _books(cache_root()).save()


class DigestBooks:
    """One book for each folder: the digests of its files, and the state in which they were read."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._books: dict[str, dict[str, tuple[State, str]]] = {}
        self._changed: set[str] = set()

    def digest(self, path: Path) -> bytes:
        """Look a file up, and read it if it is not known in its present state."""
        folder, name = os.path.split(os.path.abspath(path))  # noqa: PTH100 - without asking the disk
        book = self._book(folder)
        try:
            state = file_state(path)
            known = book.get(name)
            if known is not None and known[0] == state:
                return bytes.fromhex(known[1])
            found = _read(path)
            if file_state(path) == state and is_settled(state):
                book[name] = (state, found.hex())
                self._changed.add(folder)
        except OSError as error:
            raise DataError(f"Cannot read {path} ({error.strerror}).") from error
        return found

    def save(self) -> None:
        """Write the books that have changed."""
        for folder in sorted(self._changed):
            body = {"form": _FORM, "folder": folder, "files": self._books[folder]}
            write_cached(self._file(folder), json.dumps(body, ensure_ascii=True).encode())
        self._changed.clear()

    def _book(self, folder: str) -> dict[str, tuple[State, str]]:
        if folder not in self._books:
            self._books[folder] = _load(self._file(folder), folder)
        return self._books[folder]

    def _file(self, folder: str) -> Path:
        return self.place / f"{digest_bytes(os.fsencode(folder)).hex()}.json"


@cache
def _books(root: Path) -> DigestBooks:
    return DigestBooks(root / "digests")


def file_state(path: Path) -> State:
    """Return what changes when a file does, without reading it."""
    found = path.stat()
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_dev]


def is_settled(state: State) -> bool:
    """Tell whether the last change is so long ago that another one would be seen."""
    return time.time_ns() - max(state[1], state[2]) > SETTLED


def _read(path: Path) -> bytes:
    digest = hashlib.blake2b(digest_size=DIGEST_SIZE)
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return digest.digest()


def _load(path: Path, folder: str) -> dict[str, tuple[State, str]]:
    """Read a book; one that is damaged, or of another version, is begun anew."""
    try:
        body = json.loads(path.read_bytes())
        if body["form"] != _FORM or body["folder"] != folder:
            return {}
        return {
            name: ([int(n) for n in state], bytes.fromhex(digest).hex())
            for name, (state, digest) in body["files"].items()
        }
    except (OSError, *DAMAGED):
        return {}
