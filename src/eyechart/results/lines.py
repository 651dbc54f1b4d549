"""Files that hold several results, one a line (``--append``): only ever added to, so that no writer loses another's.

A line is written at once, at the end of the file, wherever that is by then: writers need no lock, and a writer that is
killed leaves half a line at most, which the next one ends and every reader names. The last line of a job is its result.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from eyechart.errors import ResultError
from eyechart.io.files import make_folder, sync_folder
from eyechart.io.untrusted import parse_json
from eyechart.results.result import IDENTITY

PATIENCE = 0.05
"""Seconds in which a file grows to which somebody is writing."""
HALF_WRITTEN = "It may be half-written: delete it and run again."


@dataclass(frozen=True)
class Documents:
    """The JSON objects in a file, without those that a later one of ours replaced, and what is wrong with the rest."""

    bodies: tuple[Any, ...]
    damaged: tuple[str, ...] = ()
    by_line: bool = True
    """Whether each stands on a line of its own, so that another line may follow."""


def parse_documents(text: str, path: Path) -> Documents:
    """Read one JSON document, or one a line.

    Raises:
        ResultError: If nothing in the file is JSON.
    """
    try:
        return Documents((parse_json(text),), by_line="\n" not in text.strip())
    except ValueError as error:
        whole = error
    bodies, damaged = [], []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                body = parse_json(line)
                if not isinstance(body, dict):
                    raise ValueError("not an object")  # noqa: TRY004 - as wrong as any other line
                bodies.append(body)
            except ValueError as error:
                damaged.append(f"{path}, line {number}: not valid JSON ({error}).")
    if not bodies:
        raise ResultError(f"{path} is not valid JSON ({whole}).", advice=HALF_WRITTEN) from whole
    return Documents(tuple(_standing(bodies)), tuple(damaged))


def _standing(bodies: Iterable[Mapping[str, Any]]) -> Iterable[Mapping[str, Any]]:
    """Leave out results of ours that a later line replaces; other tools' lines are all kept."""
    found: dict[object, Mapping[str, Any]] = {}
    for body in bodies:
        key: object = identity_of(body) if "checksum" in body else id(body)
        found.pop(key, None)
        found[key] = body
    return found.values()


def identity_of(body: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the values that say what an object in a file is a result of."""
    return tuple(str(body.get(key, "en" if key == "language" else "")) for key in IDENTITY)


def append_line(path: Path, line: bytes) -> None:
    """Add a line to a file, in one piece.

    Raises:
        OSError: If only a part of it could be written.
    """
    make_folder(path.parent)
    new = not path.exists()
    with path.open("a+b", buffering=0) as stream:
        data = b"\n" * _was_left_within_a_line(stream) + line + b"\n"
        if stream.write(data) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(stream.fileno())
    if new:
        sync_folder(path.parent)


def _was_left_within_a_line(stream: BinaryIO) -> bool:
    """Tell whether the last writer was killed; one that is alive goes on writing."""
    before = -1
    while True:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(size - 1, 0))
        if stream.read(1) in (b"", b"\n"):
            return False
        if size == before:
            return True
        before = size
        time.sleep(PATIENCE)
