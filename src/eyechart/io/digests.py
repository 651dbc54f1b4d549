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
from typing import Self

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


def known_digest(path: Path, state: State) -> bytes | None:
    """Return the digest of a file that was read before in this state; None if it would have to be read."""
    return _books(cache_root()).known(path, state)


def read_digested(path: Path) -> tuple[bytes, bytes]:
    """Read a file once: its content, and the digest of it, which is kept as `file_digest` keeps it.

    Raises:
        OSError: If it cannot be read.
    """
    state = file_state(path)
    data = path.read_bytes()
    found = digest_bytes(data)
    keep_digest(path, state, found)
    return data, found


def keep_digest(path: Path, state: State, digest: bytes) -> None:
    """Keep the digest of a file that somebody read, beginning in this state, if nothing happened to it meanwhile."""
    _books(cache_root()).keep(path, state, digest)


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
        try:
            state = file_state(path)
            found = self.known(path, state)
            if found is None:
                found = _read(path)
                self.keep(path, state, found)
        except OSError as error:
            raise DataError(f"Cannot read {path} ({error.strerror}).") from error
        return found

    def known(self, path: Path, state: State) -> bytes | None:
        """Look a file up that is in a state."""
        folder, name = _split(path)
        known = self._book(folder).get(name)
        return bytes.fromhex(known[1]) if known is not None and known[0] == state else None

    def keep(self, path: Path, state: State, digest: bytes) -> None:
        """Note what was read of a file, if it is still in the state in which the reading began."""
        if file_state(path) == state and is_settled(state):
            folder, name = _split(path)
            self._book(folder)[name] = (state, digest.hex())
            self._changed.add(folder)

    def save(self) -> None:
        """Write the books that have changed."""
        for folder in sorted(self._changed):
            body = {"form": _FORM, "folder": folder, "files": self._books[folder]}
            write_cached(self._file(folder), json.dumps(body, ensure_ascii=True).encode())
        self._changed.clear()

    def _book(self, folder: str) -> dict[str, tuple[State, str]]:
        if folder not in self._books:
            self._books.setdefault(folder, _load(self._file(folder), folder))  # several threads may read images
        return self._books[folder]

    def _file(self, folder: str) -> Path:
        return self.place / f"{digest_bytes(os.fsencode(folder)).hex()}.json"


def _split(path: Path) -> tuple[str, str]:
    return os.path.split(os.path.abspath(path))  # noqa: PTH100 - without asking the disk


@cache
def _books(root: Path) -> DigestBooks:
    return DigestBooks(root / "digests")


class DigestedStream:
    """A file that is read once, mostly forward, and digested on the way: what is leapt over is read, too."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._state = file_state(path)
        self._stream = path.open("rb")
        self._digest = hashlib.blake2b(digest_size=DIGEST_SIZE)
        self._reached = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stream.close()

    def read(self, size: int = -1) -> bytes:
        """Read as a file does."""
        start = self._stream.tell()
        data = self._stream.read(size)
        if start + len(data) > self._reached:
            self._digest.update(data[self._reached - start :])
            self._reached = start + len(data)
        return data

    def seek(self, position: int) -> int:
        """Go to a place."""
        if position > self._reached:
            self._stream.seek(self._reached)
            while self._reached < position and self.read(min(_BLOCK, position - self._reached)):
                pass
        return self._stream.seek(position)

    def tell(self) -> int:
        """Return the place."""
        return self._stream.tell()

    def keep(self) -> None:
        """Keep the digest of the file, if all of it was read."""
        if self._reached == self._state[0]:
            keep_digest(self.path, self._state, self._digest.digest())


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
