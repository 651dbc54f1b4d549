"""The files of an ONNX model: towers, tokenizer, image transform, and external data found in its protobuf."""

from __future__ import annotations

import mmap
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from eyechart.demo import MODELS, model_folder
from eyechart.errors import ModelError, unknown_name
from eyechart.io.digests import file_digest
from eyechart.messages import UserMessage
from eyechart.models.family import CONFIG, TOWERS
from eyechart.models.towers.checkpoints import TOKENIZER, read_json
from eyechart.types import ModelSpec, digest_json

Span = tuple[int, int]
"""Start and end of a message in the file."""

INSIDE: dict[str, dict[int, str]] = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
}
"""Fields that lead to tensors, by message, with the numbers of onnx.proto."""
EXTERNAL_DATA, LOCATION_KIND, EXTERNAL = 13, 14, 1
LOCATION = b"location"
"""Key of a file name in the external data of a tensor."""
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


def external_files(path: Path) -> list[Path]:
    """Return the external weight files of a model.

    Raises:
        ModelError: If the file is not an ONNX model, or refers to a file that is missing or outside its folder.
    """
    try:
        state = path.stat()
        names = _names_in(path, state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino)
    except (OSError, ValueError, IndexError, RecursionError) as error:
        raise ModelError(
            "Cannot load the ONNX model {path}: the file is damaged or not an ONNX model.", path=path
        ) from error
    return [_referenced_file(path, name) for name in sorted(names)]


@lru_cache(maxsize=64)
def _names_in(path: Path, *state: int) -> frozenset[str]:  # noqa: ARG001 - invalidates the cache
    """Walk the graph once per state of the file: planning, identity and loading all need the result."""
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        whole = (0, len(data))
        if data.find(LOCATION) < 0:  # all weights are in the file: check only that it is not damaged
            deque(_fields(data, whole), maxlen=0)
            return frozenset()
        return frozenset(_locations(data, "model", whole))


def _referenced_file(path: Path, name: str) -> Path:
    relative = Path(name)
    if relative.is_absolute() or ".." in relative.parts or not name:
        raise ModelError(
            "{path} refers to weights in {name!r}, outside its folder.",
            advice="Export the model with its weights in the same folder.",
            path=path,
            name=name,
        )
    found = path.parent / relative
    if not found.is_file():
        raise ModelError(
            "{path} refers to weights in {name!r}, which is missing.",
            advice="Copy that file as well.",
            path=path,
            name=name,
        )
    return found


def _locations(data: Any, kind: str, span: Span) -> Iterator[str]:
    """Yield the file names in a message."""
    if kind == "tensor":
        yield from _locations_of_tensor(data, span)
        return
    inside = INSIDE[kind]
    for number, value in _fields(data, span):
        if number in inside and isinstance(value, tuple):
            yield from _locations(data, inside[number], value)


def _locations_of_tensor(data: Any, span: Span) -> Iterator[str]:
    fields = list(_fields(data, span))
    if not any(number == LOCATION_KIND and value == EXTERNAL for number, value in fields):
        return
    for number, value in fields:
        if number == EXTERNAL_DATA and isinstance(value, tuple):
            entry = {key: data[part[0] : part[1]] for key, part in _fields(data, value) if isinstance(part, tuple)}
            if entry.get(1) == LOCATION:
                yield entry.get(2, b"").decode()


def _fields(data: Any, span: Span) -> Iterator[tuple[int, int | Span]]:
    """Yield number and value of each field: an integer, or the span of its bytes."""
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
            raise ValueError("a field exceeds its message")
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
    raise ValueError("a varint exceeds its message")


# The files of an ONNX model: two towers, a tokenizer, the image transform, and optional metadata.


TRANSFORM = "preprocessor_config.json"
CARD = "eyechart.json"
SETTINGS = ("tokenizer_config.json", "special_tokens_map.json")
"""Settings of the tokenizer, as written by transformers."""


@dataclass(frozen=True)
class Parts:
    """Paths and metadata of a model."""

    image: Path
    text: Path
    tokenizer: Path
    transform: Path
    card: dict[str, Any] = field(default_factory=dict)
    """``eyechart.json`` next to the tokenizer, if present."""
    config: dict[str, Any] = field(default_factory=dict)
    """``config.json`` of the exported model next to the tokenizer, if present."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Tokenizer settings from the files next to it."""

    @property
    def weights(self) -> list[Path]:
        """List the towers, each with its external weight files."""
        return [self.image, *external_files(self.image), self.text, *external_files(self.text)]

    def digest(self) -> str:
        """Digest weights and tokenizer."""
        return digest_json([file_digest(path).hex() for path in (*self.weights, self.tokenizer)])

    def files(self) -> list[Path]:
        """List all files that are read."""
        optional = [self.tokenizer.parent / name for name in (CARD, CONFIG, *SETTINGS)]
        return [*self.weights, self.tokenizer, self.transform, *(path for path in optional if path.is_file())]


def find_parts(spec: ModelSpec) -> Parts:
    """Find the files: the embedded model, a folder, or the two towers as ``--model`` and ``--pretrained``."""
    for embedded in MODELS:
        if embedded in (spec.name, spec.pretrained):
            return _from_folder(model_folder(embedded), spec)
    towers = [Path(text) for text in (spec.name, spec.pretrained) if text.endswith(".onnx")]
    if towers:
        return _from_towers(towers, spec)
    for text in (spec.pretrained, spec.name):
        if text and Path(text).is_dir():
            return _from_folder(Path(text), spec)
    advice = UserMessage(
        "Pass a folder with image.onnx and text.onnx, or the two files as {--model} and {--pretrained}."
    )
    raise unknown_name("ONNX model", spec.pretrained or spec.name, list(MODELS), advice=advice)


def _from_folder(folder: Path, spec: ModelSpec) -> Parts:
    found: dict[str, Path | None] = {}
    for side, names in TOWERS.items():
        places = [place / name for place in (folder, folder / "onnx") for name in names]
        found[side] = next(filter(Path.is_file, places), None)
    missing = [names[0] for side, names in TOWERS.items() if found[side] is None]
    missing += [name for name in (TOKENIZER, TRANSFORM) if not (folder / name).is_file()]
    if missing:
        needed = ", ".join([names[0] for names in TOWERS.values()] + [TOKENIZER, TRANSFORM])
        raise ModelError(
            "Missing files in the ONNX folder {path}: {list}.",
            advice="It must contain {needed}.",
            path=folder,
            list=", ".join(missing),
            needed=needed,
        )
    image, text = found["image"], found["text"]
    return _complete(image or folder, text or folder, folder / TOKENIZER, folder / TRANSFORM, spec)


def _from_towers(towers: list[Path], spec: ModelSpec) -> Parts:
    if len(towers) != 2:
        raise ModelError(
            "Two ONNX files are required: the image tower and the text tower.",
            advice="Pass {--model} image.onnx {--pretrained} text.onnx.",
        )
    image, text = towers
    tokenizer = Path(spec.options.get("tokenizer") or text.parent / TOKENIZER)
    transform = Path(spec.options.get("preprocessor") or image.parent / TRANSFORM)
    for path in (image, text, tokenizer, transform):
        if not path.is_file():
            raise ModelError(
                "File not found: {path}.",
                advice="Put tokenizer and transform next to the towers, or pass "
                "{--model_option=tokenizer={tokenizer}} preprocessor={transform}.",
                path=path,
                tokenizer=TOKENIZER,
                transform=TRANSFORM,
            )
    return _complete(image, text, tokenizer, transform, spec)


def _complete(image: Path, text: Path, tokenizer: Path, transform: Path, spec: ModelSpec) -> Parts:
    optional = {name: tokenizer.parent / name for name in (CARD, CONFIG, *SETTINGS)}
    known = {name: read_json(path) if path.is_file() else {} for name, path in optional.items()}
    settings = {key: value for name in reversed(SETTINGS) for key, value in known[name].items()}
    return Parts(image, text, tokenizer, transform, known[CARD] or {"name": spec.label}, known[CONFIG], settings)
