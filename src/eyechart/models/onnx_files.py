"""The files of an ONNX model: towers, tokenizer, image transform, and external data found in its protobuf."""

import math
import mmap
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from eyechart.demo import MODELS, model_folder
from eyechart.errors import ModelError, unknown_name
from eyechart.io.digests import file_digest
from eyechart.messages import UserMessage
from eyechart.models.family import ALONE, CONFIG, TOWERS
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
VARINT, BYTES = 0, 2
FIXED = {1: 8, 5: 4}
"""Sizes of fixed-width values by wire type."""
DIMS, DATA_TYPE = 1, 2
TYPES = {1: "fp32", 2: "int8", 3: "int8", 10: "fp16", 11: "fp64", 16: "bf16", 21: "int4", 22: "int4"} | dict.fromkeys(
    range(17, 21), "fp8"
)
"""Types of weights by the numbers of onnx.proto; others hold indices and shapes."""


def external_files(path: Path) -> list[Path]:
    """Return the external weight files of a model."""
    found = []
    for name in sorted({name for name, _, _ in tensors_of(path) if name is not None}):
        file = path.parent / name
        if not name or Path(name).is_absolute() or ".." in Path(name).parts:
            raise ModelError(
                "{path} refers to weights in {name!r}, outside its folder.",
                advice="Export the model with its weights in the same folder.",
                path=path,
                name=name,
            )
        if not file.is_file():
            raise ModelError(
                "{path} refers to weights in {name!r}, which is missing.",
                advice="Copy that file as well.",
                path=path,
                name=name,
            )
        found.append(file)
    return found


Tensor = tuple[str | None, int, int]
"""External file, if any, type and number of elements."""


def tensors_of(path: Path) -> Sequence[Tensor]:
    """Return the tensors of a model."""
    try:
        state = path.stat()
        return _tensors_in(path, state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino)
    except (OSError, ValueError, IndexError, RecursionError) as error:
        raise ModelError(
            "Cannot load the ONNX model {path}: the file is damaged or not an ONNX model.", path=path
        ) from error


@lru_cache(maxsize=64)
def _tensors_in(path: Path, *state: int) -> Sequence[Tensor]:  # noqa: ARG001 - invalidates the cache
    """Walk the graph once per state of the file: planning, identity and loading all need the result."""
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return tuple(_tensors(data, "model", (0, len(data))))


def _tensors(data: Any, kind: str, span: Span) -> Iterator[Tensor]:
    if kind != "tensor":
        inside = INSIDE[kind]
        for number, value in _fields(data, span):
            if number in inside and isinstance(value, tuple):
                yield from _tensors(data, inside[number], value)
        return
    fields = list(_fields(data, span))
    location = None
    for value in (value for number, value in fields if number == EXTERNAL_DATA and isinstance(value, tuple)):
        entry = {key: data[part[0] : part[1]] for key, part in _fields(data, value) if isinstance(part, tuple)}
        if entry.get(1) == b"location" and (LOCATION_KIND, EXTERNAL) in fields:
            location = entry.get(2, b"").decode()
    kinds = [value for number, value in fields if number == DATA_TYPE and isinstance(value, int)]
    sizes = (value for number, value in fields if number == DIMS and isinstance(value, int))
    yield location, kinds[-1] if kinds else 0, math.prod(sizes)


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
        elif wire in FIXED:
            value, place = (place, place + FIXED[wire]), place + FIXED[wire]
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


TRANSFORM = "preprocessor_config.json"
CARD = "eyechart.json"
SETTINGS = ("tokenizer_config.json", "special_tokens_map.json")
"""Settings of the tokenizer, as written by transformers."""
OPTIONAL = (CARD, CONFIG, *SETTINGS)
"""Files next to the tokenizer, or to the transform if there is none, that are read if present."""


@dataclass(frozen=True)
class Parts:
    """Paths and metadata of a model."""

    image: Path
    transform: Path
    text: Path | None
    tokenizer: Path | None
    """None, like the text tower, for an image encoder."""
    card: dict[str, Any] = field(default_factory=dict)
    """``eyechart.json``, if present."""
    config: dict[str, Any] = field(default_factory=dict)
    """``config.json`` of the exported model, if present."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Tokenizer settings from the files next to it."""
    weights: tuple[Path, ...] = ()
    """The towers, each with its external weight files."""
    files: tuple[Path, ...] = ()
    """All files that are read."""

    @property
    def weight_type(self) -> str:
        """Type of most weights: ``int8`` for a quantised export."""
        counts = Counter[str]()
        for path in filter(None, (self.image, self.text)):
            for _, kind, size in tensors_of(path):
                counts[TYPES.get(kind, "")] += size if kind in TYPES else 0
        return max(counts, key=counts.__getitem__, default="")

    def digest(self) -> str:
        """Digest weights and tokenizer."""
        files = filter(None, (*self.weights, self.tokenizer))
        return digest_json([file_digest(path, weights=True).hex() for path in files])


def find_parts(spec: ModelSpec) -> Parts:
    """Find the files: the embedded model, a folder, or the towers as ``--model`` and ``--pretrained``."""
    texts = (spec.pretrained, spec.name)
    embedded = next((name for name in MODELS if name in texts), None)
    towers = [Path(text) for text in reversed(texts) if text.endswith(".onnx")]
    folder = next((Path(text) for text in texts if text and Path(text).is_dir()), None)
    if embedded is not None:
        found = _in_folder(model_folder(embedded))
    elif towers:
        found = _of_towers(towers, spec)
    elif folder is not None:
        found = _in_folder(folder)
    else:
        advice = UserMessage(
            "Pass a folder with image.onnx and text.onnx, or the two files as {--model} and {--pretrained}."
        )
        raise unknown_name("ONNX model", spec.pretrained or spec.name, list(MODELS), advice=advice)
    image, transform, *reading = found
    text, tokenizer = reading or (None, None)
    weights = tuple(file for tower in (image, text) if tower for file in (tower, *external_files(tower)))
    place = (tokenizer or transform).parent
    optional = {name: path for name in OPTIONAL if (path := place / name).is_file()}
    known = {name: read_json(path) for name, path in optional.items()}
    return Parts(
        image,
        transform,
        text,
        tokenizer,
        card=known.get(CARD) or {"name": spec.label},
        config=known.get(CONFIG, {}),
        settings={**known.get(SETTINGS[1], {}), **known.get(SETTINGS[0], {})},
        weights=weights,
        files=(*weights, transform, *reading[1:], *optional.values()),
    )


def _in_folder(folder: Path) -> tuple[Path, ...]:
    """Find image tower, transform, text tower and tokenizer; the last two unless there is no trace of them."""
    needed = [TOWERS["image"], (TRANSFORM,), TOWERS["text"], (TOKENIZER,)]
    if not any(folder.glob("*token*")) and not any((folder / name).is_file() for name in TOWERS["text"]):
        needed = [(*TOWERS["image"], *ALONE), (TRANSFORM,)]
    found = [next((path for name in names if (path := folder / name).is_file()), None) for names in needed]
    missing = [names[0] for names, path in zip(needed, found, strict=True) if path is None]
    if missing:
        raise ModelError(
            "Missing files in the ONNX folder {path}: {list}.",
            advice="It must contain {needed}.",
            path=folder,
            list=", ".join(missing),
            needed=", ".join(names[0] for names in needed),
        )
    return tuple(filter(None, found))


def _of_towers(towers: list[Path], spec: ModelSpec) -> tuple[Path, ...]:
    image, *texts = towers
    transform = Path(spec.options.get("preprocessor") or image.parent / TRANSFORM)
    texts += [Path(spec.options.get("tokenizer") or text.parent / TOKENIZER) for text in texts]
    for path in (image, transform, *texts):
        if not path.is_file():
            raise ModelError(
                "File not found: {path}.",
                advice="Put tokenizer and transform next to the towers, or pass "
                "{--model_option=tokenizer={tokenizer}} preprocessor={transform}.",
                path=path,
                tokenizer=TOKENIZER,
                transform=TRANSFORM,
            )
    return image, transform, *texts
