"""The response store: answers of generators, one JSON line each, flushed to disk before they are returned.

A table belongs to one generator and its settings (the fingerprint of its card). Every process appends to its own file,
so there are no locks and any number of writers; a line is flushed to disk before `add` returns. A killed writer leaves
at most one unterminated last line, which is ignored. Files are append-only. Each line ends with a checksum of the table
and of the bytes before it; a line that fails the check, or was copied from another generator, is ignored, and its
answer is generated again.
"""

import errno
import json
import os
import secrets
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from eyechart.io.digests import digest_bytes
from eyechart.io.files import CacheError, explained, make_folder, sync_folder
from eyechart.io.safe_parse import parse_json
from eyechart.types import Answer, Message, digest_json

VERSION = 2
"""Format version of stored answers, part of every key. 2: answers are stored verbatim, never redacted."""
_CHECKSUM = b',"sum":"'
"""Prefix of the checksum. It cannot occur inside a text, where quotes are escaped."""


class Responses:
    """The cached answers of one generator by key. Thread-safe; several processes may share a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.damaged = 0
        """Complete lines that fail their checksum: disk faults and lines of other generators, not lines that a killed
        writer cut off."""
        self._answers: dict[str, Answer] = {}
        self._read_up_to: dict[Path, int] = {}
        self._lock = threading.Lock()
        self._writer = _Writer(folder)
        self.refresh()

    def __len__(self) -> int:
        return len(self._answers)

    def get(self, key: str) -> Answer | None:
        """Return the stored answer for a key made by `prompt_key`, or None."""
        return self._answers.get(key)

    def add(self, key: str, answer: Answer) -> None:
        """Store an answer; returns once it is on disk."""
        text = json.dumps({"key": key, **asdict(answer)}, ensure_ascii=False, separators=(",", ":"))
        body = text.removesuffix("}").encode("utf-8", "surrogatepass")
        self._writer.write(body + _CHECKSUM + self._checksum(body).encode() + b'"}\n')
        self._answers[key] = answer

    def refresh(self) -> None:
        """Read lines added since the last call, by this process or others."""
        with self._lock:
            for path in sorted(self.folder.glob("[0-9]*.jsonl")):
                with path.open("rb") as stream:
                    stream.seek(self._read_up_to.get(path, 0))
                    for line in stream:
                        if not line.endswith(b"\n"):
                            break  # unterminated: its writer is still writing, or was killed
                        self._read_up_to[path] = stream.tell()
                        self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            fields = parse_json(line.decode("utf-8", "surrogatepass"))
            if fields.pop("sum") != self._checksum(line.rpartition(_CHECKSUM)[0]):
                raise ValueError("checksum mismatch")
            key, answer = fields.pop("key"), Answer(**fields)
            if not isinstance(answer.text, str):
                raise TypeError("the text of an answer must be a string")
            self._answers[key] = answer
        except (ValueError, TypeError, AttributeError, KeyError):
            self.damaged += 1

    def _checksum(self, body: bytes) -> str:
        return digest_bytes(self.folder.name.encode() + b"\0" + body).hex()


class _Writer:
    """Appends lines to a file owned by this process.

    Threads that wait for the disk at the same time share one fsync, which takes some ten milliseconds regardless of
    size.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file: int | None = None
        self._owner = 0
        self._written = 0
        self._flushed = 0
        self._writing, self._flushing = threading.Lock(), threading.Lock()

    def __del__(self) -> None:
        self._close()

    def write(self, line: bytes) -> None:
        """Append a line; returns once it is on disk."""
        try:
            with explained("response store", self.folder):
                with self._writing:
                    file = self._open()
                    if os.write(file, line) != len(line):
                        raise OSError(errno.ENOSPC, "the disk took only a part of the answer")
                    self._written += 1
                    number = self._written
                with self._flushing:
                    if self._flushed >= number:
                        return  # another thread's fsync already covered this line
                    with self._writing:
                        opened, upto = self._file, self._written
                    if opened is None:
                        raise OSError(errno.EIO, "another answer could not be written")
                    os.fsync(opened)
                    self._flushed = upto
        except CacheError:
            with self._writing:
                self._close()  # the next line starts a new file: nothing is appended to a partial line
            raise

    def _open(self) -> int:
        if self._file is None or self._owner != os.getpid():  # a forked process needs its own file
            name = f"{time.time_ns():020d}-{os.getpid()}-{secrets.token_hex(4)}.jsonl"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_BINARY", 0)
            self._file = os.open(make_folder(self.folder, private=True) / name, flags, 0o600)
            self._owner = os.getpid()
            sync_folder(self.folder)
        return self._file

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


@dataclass
class ResponseStore:
    """All tables under one folder."""

    root: Path
    _tables: dict[str, Responses] = field(default_factory=dict)

    def table(self, fingerprint: str) -> Responses:
        """Return the table of a generator, by the fingerprint of its card."""
        if fingerprint not in self._tables:
            self._tables[fingerprint] = Responses(self.root / fingerprint)
        return self._tables[fingerprint]


def prompt_key(messages: Sequence[Message], repeat: int = 0, temperature: float | None = None) -> str:
    """Compute the cache key of a prompt from its roles, texts and image contents.

    ``repeat`` separates repeated answers to the same prompt; ``temperature`` is given if it overrides the generator's
    own.
    """
    turns = [
        (message.role, [part if isinstance(part, str) else {"picture": part.digest().hex()} for part in message.parts])
        for message in messages
    ]
    more = [repeat] if temperature is None else [repeat, temperature]
    return digest_json([VERSION, turns, *more])
