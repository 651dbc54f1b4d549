"""Result files: JSON with the numbers and where they came from, and a JSON-lines file with a record per sample."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from eyechart.errors import ResultError
from eyechart.io.files import atomic_file, write_atomic
from eyechart.io.json_text import to_json
from eyechart.io.untrusted import MAX_JSON, read_text
from eyechart.results.json_blocks import field_blocks, object_blocks
from eyechart.results.line_fields import Block
from eyechart.results.lines import Documents, append_line, identity_of, parse_documents
from eyechart.results.parse import checksum, result_from_dict, result_to_dict
from eyechart.results.result import Result


def records_path(output: Path) -> Path:
    """Return where the per-sample records of a result go: beside it."""
    # Any other ending than .json is a part of the name: two languages may be all that tells two results apart.
    return output.with_name(f"{output.name.removesuffix('.json')}.records.jsonl")


def write_result(
    result: Result, records: Iterable[Mapping[str, Any]], output: Path, *, place: Path | None = None
) -> Result:
    """Write the records, then the result that names them; each file appears whole or not at all.

    Args:
        result: What was measured.
        records: One for each sample.
        output: The result's own file; or, with ``place``, a file to which the result is added as a line.
        place: Where the result would be if it were alone: its records are named after that.
    """
    # What a line names is never written over: the line would stand beside records that it was not made of.
    unique = f"{place.name.removesuffix('.json')}.{secrets.token_hex(4)}.json" if place else output.name
    target = records_path(output.with_name(unique))
    digest, count, size = hashlib.sha256(), 0, 0
    try:
        with atomic_file(target) as stream:
            for record in records:
                line = to_json(record).encode("utf-8", "backslashreplace") + b"\n"
                digest.update(line)
                stream.write(line)
                count, size = count + 1, size + len(line)
            if place is None:
                _retire(output, digest.hexdigest())
        body = result_to_dict(result)
        body["records"] |= {"file": target.name, "count": count, "sha256": digest.hexdigest(), "bytes": size}
        body["checksum"] = checksum(body)
        if place is None:
            write_atomic(output, (to_json(body, indent=1) + "\n").encode("utf-8", "backslashreplace"))
        else:
            older = _records_of(output, result.identity)
            append_line(output, to_json(body).encode("utf-8", "backslashreplace"))
            if older:
                older.unlink(missing_ok=True)
    except OSError as error:
        raise ResultError(
            f"Cannot write the result {output} ({error.strerror}).",
            advice="Embeddings are kept: run the same command again when the folder can be written.",
        ) from error
    return result_from_dict(body, output)


def save_result(result: Result, place: str | Path) -> Result:
    """Write a result and its records once more, elsewhere; the result of something else is not written over.

    Raises:
        ResultError: If the output holds such a thing, or a file that is no result.
    """
    output = Path(place)
    if output.is_dir() or str(place).endswith("/"):
        raise ResultError(f"{output} is a folder.", advice="Name the file, too: results/x.json.")
    if output.exists() and read_result(output).identity != result.identity:
        raise ResultError(f"{output} holds the result of something else.", advice="Choose another name, or move it.")
    unsaved = replace(result, record_info={"form": result.record_info.get("form", "")})
    return write_result(unsaved, list(result.iter_records()), output)


def _retire(output: Path, digest: str) -> None:
    """Remove an older result just before its records are replaced by others.

    Otherwise a run that is killed between the two files would leave a result beside records that it was not made of.
    """
    try:
        records = read_result(output).record_info
    except ResultError:
        return  # none there, or half of another tool's: nothing names the records
    if records.get("sha256", digest) != digest:
        output.unlink(missing_ok=True)


def _records_of(output: Path, identity: tuple[str, ...]) -> Path | None:
    """Return where the records of a line are that another line is going to replace."""
    try:
        found = find_result(output, identity)
    except ResultError:
        return None
    return records_file(found) if found else None


def find_result(path: Path, identity: tuple[str, ...]) -> Result | None:
    """Return the result of a model on a benchmark from a file of several, or None if it has none.

    Raises:
        ResultError: If the file cannot be read, or the result is damaged.
    """
    found = (body for body in reversed(read_documents(path).bodies) if _is_result(body))
    body = next((body for body in found if identity_of(body) == identity), None)
    return result_from_dict(body, path) if body else None


def read_result(path: str | Path) -> Result:
    """Read one result file: ours, or one that CLIP_benchmark or EvalScope wrote.

    Raises:
        ResultError: If it is not valid JSON (a half-written file), not a result, or holds several.
    """
    path = Path(path)
    found = read_documents(path)
    if len(found.bodies) > 1 or found.damaged:
        raise ResultError(
            f"{path} holds {len(found.bodies)} results, one a line.", advice="eyechart.load_results reads all of them."
        )
    (body,) = found.bodies
    if not _is_result(body):
        raise ResultError(
            f"{path} is not a result file.", advice="A result has the keys dataset, model, task, metrics."
        )
    return result_from_dict(body, path)


def read_documents(path: Path) -> Documents:
    """Read the JSON objects of a result file: one, or one a line."""
    return parse_documents(read_text(path, ResultError, MAX_JSON), path)


def _is_result(body: object) -> bool:
    return isinstance(body, dict) and isinstance(body.get("metrics"), dict) and "dataset" in body


def records_file(result: Result) -> Path | None:
    """Return where the records of a result are, if it has some."""
    if result.path is None or not result.record_info.get("file"):
        return None
    # Only the name: a result file from elsewhere must not make us read outside its own folder.
    return result.path.parent / Path(str(result.record_info["file"])).name


def record_blocks(result: Result) -> Iterator[list[dict[str, Any]]]:
    """Stream the records of a result, many at a time; none if it has no records file.

    Raises:
        ResultError: Before the first of them, if they are missing or not those that were written with the result.
    """
    path = _checked_records(result)
    if path is not None:
        yield from object_blocks(path, ResultError)


def record_fields(result: Result, wanted: Collection[str]) -> Iterator[Block]:
    """Stream the same, for who reads a few fields of most of them."""
    path = _checked_records(result)
    if path is not None:
        yield from field_blocks(path, wanted, ResultError)


def _checked_records(result: Result) -> Path | None:
    """Return where the records of a result are, if they are those that were written with it."""
    path = records_file(result)
    if path is None:
        return None
    try:
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise ResultError(f"{path}: the records of {result.path} cannot be read ({error.strerror}).") from error
    if result.record_info.get("sha256", digest) != digest:
        raise ResultError(
            f"{path} was cut or changed after {result.path} was written.",
            advice="Run the job again, or leave the result out.",
        )
    return path


def read_json_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Stream a JSON-lines file; a bad line is an error that names its number."""
    return chain.from_iterable(object_blocks(path, ResultError))
