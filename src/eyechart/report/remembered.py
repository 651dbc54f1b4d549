"""The columns of records that were read before: of a records file that is as it was, nothing is read again.

As it was means the same size, time of change, time of status change, inode and device (see `eyechart.io.digests`), and
the digest that the result names. What cannot be kept is read again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eyechart.io.digests import DIGEST_SIZE, digest_bytes, file_state, is_settled
from eyechart.io.files import cache_root, write_atomic
from eyechart.report.records import RecordColumns, read_columns
from eyechart.results import Result
from eyechart.results.files import records_file


def remembered_columns(result: Result, *, keep: int = 0) -> RecordColumns | None:
    """Return what `read_columns` does, without reading a records file that is as it was when it was read before."""
    path, digest = records_file(result), result.record_info.get("sha256")
    if path is None or not digest:
        return read_columns(result, keep=keep)
    means = [asdict(metric.mean_of) for metric in result.values.values() if metric.mean_of]
    what = [str(path.absolute()), result.record_info.get("form"), means, keep, _code()]
    place = cache_root() / "columns" / f"{digest_bytes(json.dumps(what).encode()).hex()}.bin"
    state = _state(path, digest)
    known = _load(place, state)
    if known is not None:
        return known
    columns = read_columns(result, keep=keep)
    if columns is not None and state is not None and is_settled(state[0]) and _state(path, digest) == state:
        _save(place, state, columns)
    return columns


def _state(path: Path, digest: object) -> list[Any] | None:
    """Return what tells that records are those that were read; None if there are none."""
    try:
        return [file_state(path), digest]
    except OSError:
        return None


@cache
def _code() -> list[str]:
    """Whoever changes how columns are made, or kept, forgets what was kept."""
    return [digest_bytes(file.read_bytes()).hex() for file in sorted(Path(__file__).parent.glob("*.py"))]


def _save(place: Path, state: list[Any], columns: RecordColumns) -> None:
    """Write a line of JSON and the arrays that it names, with a digest before them."""
    arrays: dict[str, NDArray[Any]] = {f"numbers {name}": values for name, values in columns.numbers.items()}
    arrays |= {"present": columns.present, "scores": columns.scores}
    head = {
        "state": state,
        "arrays": [[name, array.dtype.str, array.shape] for name, array in arrays.items()],
        "form": columns.form,
        "ids": columns.ids,
        "names": columns.names,
        "worst": list(columns.worst.items()),
        "texts": list(columns.texts.items()),
        "thumbnails": list(columns.thumbnails.items()),
    }
    body = json.dumps(head).encode() + b"\n" + b"".join(array.tobytes() for array in arrays.values())
    try:
        write_atomic(place, digest_bytes(body) + body, durable=False)
    except OSError:
        return  # a cache that cannot be written is no reason to show no report


def _load(place: Path, state: list[Any] | None) -> RecordColumns | None:
    """Read what was kept of a file in this state; None if there is nothing, or it is damaged."""
    try:
        data = place.read_bytes()
    except OSError:
        return None
    digest, body = data[:DIGEST_SIZE], data[DIGEST_SIZE:]
    if digest_bytes(body) != digest:
        return None
    end = body.index(b"\n")
    head = json.loads(body[:end])
    return _columns(head, _arrays(head, body, end + 1)) if head["state"] == state else None


def _arrays(head: Mapping[str, Any], body: bytes, place: int) -> dict[str, NDArray[Any]]:
    found = {}
    for name, kind, shape in head["arrays"]:
        count = int(np.prod(shape))
        found[name] = np.frombuffer(body, kind, count, place).reshape(shape)
        place += found[name].nbytes
    return found


def _columns(head: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> RecordColumns:
    return RecordColumns(
        form=head["form"],
        ids=tuple(head["ids"]),
        numbers={name.removeprefix("numbers "): array for name, array in arrays.items() if name.startswith("numbers ")},
        names={name: tuple(values) for name, values in head["names"].items()},
        present=arrays["present"],
        scores=arrays["scores"],
        worst=dict(head["worst"]),
        texts=dict(head["texts"]),
        thumbnails=dict(head["thumbnails"]),
    )
