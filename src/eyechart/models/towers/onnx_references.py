"""Which files an ONNX model reads besides itself, found in its protobuf without the onnx library.

Large weights lie in other files, under any name. A tensor that is kept so has ``data_location`` EXTERNAL and a list
``external_data`` with a ``location``. Tensors stand among a graph's initialisers and in the attributes of its nodes,
which may hold further graphs. Everything else is stepped over, so that a model of gigabytes is not read.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from eyechart.errors import ModelError

Span = tuple[int, int]
"""Where a message begins and ends in the file."""

INSIDE: dict[str, dict[int, str]] = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
}
"""Which fields of which message lead to tensors: the numbers of onnx.proto."""
EXTERNAL_DATA, LOCATION_KIND, EXTERNAL = 13, 14, 1
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


def external_files(path: Path) -> list[Path]:
    """Return the files beside a model that hold its large weights.

    Raises:
        ModelError: If the file is no ONNX model, or refers to a file that is missing or outside of its folder.
    """
    try:
        with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            names = set(_locations(data, "model", (0, len(data))))
    except (OSError, ValueError, IndexError, RecursionError) as error:
        raise ModelError(f"Cannot load the ONNX model {path}: the file is damaged or no ONNX model.") from error
    return [_beside(path, name) for name in sorted(names)]


def _beside(path: Path, name: str) -> Path:
    relative = Path(name)
    if relative.is_absolute() or ".." in relative.parts or not name:
        raise ModelError(
            f"{path} keeps its weights in {name!r}, which is outside of its folder.",
            advice="Copy that file beside the model and export it again.",
        )
    found = path.parent / relative
    if not found.is_file():
        raise ModelError(f"{path} keeps its weights in {name!r}, which is not there.", advice="Copy that file too.")
    return found


def _locations(data: Any, kind: str, span: Span) -> Iterator[str]:
    """Yield the file names in a message."""
    if kind == "tensor":
        yield from _of_tensor(data, span)
        return
    inside = INSIDE[kind]
    for number, value in _fields(data, span):
        if number in inside and isinstance(value, tuple):
            yield from _locations(data, inside[number], value)


def _of_tensor(data: Any, span: Span) -> Iterator[str]:
    fields = list(_fields(data, span))
    if not any(number == LOCATION_KIND and value == EXTERNAL for number, value in fields):
        return
    for number, value in fields:
        if number == EXTERNAL_DATA and isinstance(value, tuple):
            entry = {key: data[part[0] : part[1]] for key, part in _fields(data, value) if isinstance(part, tuple)}
            if entry.get(1) == b"location":
                yield entry.get(2, b"").decode()


def _fields(data: Any, span: Span) -> Iterator[tuple[int, int | Span]]:
    """Yield number and value of each field: a number, or where its bytes are."""
    place, end = span
    while place < end:
        key, place = _varint(data, place, end)
        number, wire = key >> 3, key & 7
        value: int | Span
        if wire == VARINT:
            value, place = _varint(data, place, end)
        elif wire == BYTES:
            length, place = _varint(data, place, end)
            value, place = (place, place + length), place + length
        elif wire in (FIXED64, FIXED32):
            size = 8 if wire == FIXED64 else 4
            value, place = (place, place + size), place + size
        else:
            raise ValueError(f"wire type {wire}")
        if place > end:
            raise ValueError("a field goes beyond its message")
        yield number, value


def _varint(data: Any, place: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while place < end and shift < 70:
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7
    raise ValueError("a number goes beyond its message")
