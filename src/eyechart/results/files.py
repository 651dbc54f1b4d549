"""Result files: JSON with the numbers and their provenance, and a JSON-lines file with one record per sample.

A file may hold several results, one per line (``--append``). It is only ever appended to, so concurrent writers never
lose a line. A line is written in one piece at the current end of the file: writers need no lock, and a killed writer
leaves at most half a line, which the next writer terminates and every reader reports. The last line of a job is its
result.
"""

import atexit
import errno
import hashlib
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

from eyechart.errors import ResultError
from eyechart.io.files import atomic_file, make_folder, sync_folder, write_atomic
from eyechart.io.safe_parse import MAX_JSON, Objects, object_blocks, parse_json, read_text, to_json
from eyechart.io.signals import held_signals
from eyechart.messages import UserMessage
from eyechart.results.fields import ResultFields, body_of, checksum, key_of

PATIENCE = 0.05
"""Seconds after which a file that does not grow has no active writer."""
HALF_WRITTEN = "It may be half-written: delete it and rerun the job."


@dataclass(frozen=True)
class Documents:
    """The JSON objects in a file, without results replaced by a later line, and messages about damaged lines."""

    bodies: tuple[Any, ...]
    damaged: tuple[str, ...] = ()
    by_line: bool = True
    """Whether each object occupies a single line, so that another line may follow."""


def parse_documents(text: str, path: Path) -> Documents:
    """Parse one JSON document, or one per line."""
    try:
        return Documents((parse_json(text),), by_line="\n" not in text.strip())
    except ValueError as error:
        whole = error
    bodies: dict[object, Mapping[str, Any]] = {}
    damaged = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            body = parse_json(line)
            if not isinstance(body, dict):
                raise ValueError("not an object")  # noqa: TRY004 - one kind of error for all damaged lines
        except ValueError as error:
            damaged.append(
                UserMessage("{path}, line {number}: not valid JSON ({reason}).", path=path, number=number, reason=error)
            )
            continue
        # A later line of ours replaces the earlier one; other tools' lines are all kept.
        key: object = key_of(body) if "checksum" in body else number
        bodies.pop(key, None)
        bodies[key] = body
    if not bodies:
        raise ResultError(
            "{path} is not valid JSON ({reason}).", advice=HALF_WRITTEN, path=path, reason=whole
        ) from whole
    return Documents(tuple(bodies.values()), tuple(damaged))


def read_documents(path: Path) -> Documents:
    """Read the JSON objects of a result file: one, or one per line."""
    return parse_documents(read_text(path, ResultError, MAX_JSON), path)


def is_result(body: object) -> bool:
    """Whether a JSON value has the form of a result."""
    return isinstance(body, dict) and isinstance(body.get("metrics"), dict) and "dataset" in body


def find_body(path: Path, key: tuple[str, ...]) -> dict[str, Any] | None:
    """Return the result of a model on a benchmark from a file of several, or None."""
    found = (body for body in reversed(read_documents(path).bodies) if is_result(body))
    return next((body for body in found if key_of(body) == key), None)


def records_path(output: Path) -> Path:
    """Return the path of a result's per-sample records, in the same folder."""
    # Any ending other than .json is part of the name: two results may differ only in a language after a dot.
    return output.with_name(f"{output.name.removesuffix('.json')}.records.jsonl")


def write_files(
    result: ResultFields, records: Iterable[Mapping[str, Any]], output: Path, *, place: Path | None = None
) -> dict[str, Any]:
    """Write the records, then the result that refers to them, and return its JSON object.

    Each file appears whole or not at all. With ``place``, the path that the result would have on its own, the result is
    appended to the output as a line, and its records are named after that path.
    """
    # The records of a line are never overwritten: an older line would then refer to records of another run.
    unique = f"{place.name.removesuffix('.json')}.{secrets.token_hex(4)}.json" if place else output.name
    target = records_path(output.with_name(unique))
    digest, count, size = hashlib.sha256(), 0, 0
    try:
        with held_signals():  # an older result is never removed without a new one
            with atomic_file(target) as stream:
                for record in records:
                    line = to_json(record).encode("utf-8", "backslashreplace") + b"\n"
                    digest.update(line)
                    stream.write(line)
                    count, size = count + 1, size + len(line)
                if place is None and output.exists():
                    _retire(output, digest.hexdigest())
            body = body_of(result)
            body["records"] |= {"file": target.name, "count": count, "sha256": digest.hexdigest(), "bytes": size}
            body["checksum"] = checksum(body)
            if place is None:
                write_atomic(output, (to_json(body, indent=1) + "\n").encode("utf-8", "backslashreplace"))
            else:
                older: Any = None
                with suppress(ResultError):  # there is no line yet that this one replaces
                    older = (find_body(output, key_of(body)) or {}).get("records")
                append_line(output, to_json(body).encode("utf-8", "backslashreplace"))
                if isinstance(older, dict) and (replaced := _in_folder(output, older)):
                    replaced.unlink(missing_ok=True)
    except OSError as error:
        raise ResultError(
            "Cannot write the result {path} ({reason}).",
            advice="Embeddings are cached: rerun the same command once the folder is writable.",
            path=output,
            reason=error.strerror,
        ) from error
    return body


def _retire(output: Path, digest: str) -> None:
    """Remove an older result just before its records are replaced.

    Otherwise a run that is killed between the two files would leave a result next to the records of another run.
    """
    with suppress(ResultError):  # damaged: no result names the records
        found = read_documents(output)
        if len(found.bodies) == 1 and not found.damaged and is_result(found.bodies[0]):
            records = found.bodies[0].get("records")
            if isinstance(records, dict) and records.get("sha256", digest) != digest:
                output.unlink(missing_ok=True)


def _in_folder(path: Path, info: Mapping[str, Any]) -> Path | None:
    """Return the records file of a result. Only its name is used: a hostile file must not lead elsewhere."""
    return path.parent / Path(str(info["file"])).name if info.get("file") else None


def records_file(result: ResultFields) -> Path | None:
    """Return the path of a result's records, or None."""
    return None if result.path is None else _in_folder(result.path, result.record_info)


def record_blocks(result: ResultFields) -> Iterator[Objects]:
    """Stream the records of a result in lists; nothing if it has no records file.

    Raises:
        ResultError: Before the first block, if the records are missing or were modified.
    """
    path = records_file(result)
    if path is None:
        return
    try:
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise ResultError(
            "{path}: cannot read the records of {result_path} ({reason}).",
            path=path,
            result_path=result.path,
            reason=error.strerror,
        ) from error
    if result.record_info.get("sha256", digest) != digest:
        raise ResultError(
            "{path} was truncated or modified after {result_path} was written.",
            advice="Rerun the job, or leave the result out.",
            path=path,
            result_path=result.path,
        )
    yield from object_blocks(path, ResultError)


def append_line(path: Path, line: bytes) -> None:
    """Append a line to a file, in one piece."""
    make_folder(path.parent)
    new = not path.exists()
    with path.open("a+b", buffering=0) as stream:
        data = b"\n" * _ends_within_a_line(stream) + line + b"\n"
        if stream.write(data) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(stream.fileno())
    if new:
        sync_folder(path.parent)


def _ends_within_a_line(stream: BinaryIO) -> bool:
    """Whether the last writer was killed within a line; an active one would make the file grow."""
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


def unsaved_folder() -> Path:
    """Return a new folder for results without an output; it is deleted when the process ends."""
    return Path(tempfile.mkdtemp(dir=_unsaved_parent()))


@cache
def _unsaved_parent() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="eyechart-results-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
