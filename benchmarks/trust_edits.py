"""A change of one input, and the edits that make it: what the lists of changes for `trust.py` are written with."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import re
import tarfile
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from trust_world import draw, png

TINY = ["--model_type", "onnx", "--model", "m", "--pretrained", "model"]
CLASSIFY = [*TINY, "--dataset", "photos"]
WDS = [*TINY, "--dataset", "wds/c", "--dataset_root", "wds_c"]
MULTI = [*TINY, "--dataset", "wds/m", "--dataset_root", "wds_m"]
RETRIEVE = [*TINY, "--dataset", "wds/r", "--dataset_root", "wds_r", "--recall_k", "1", "5"]
PROBE = [*CLASSIFY, "--task", "knn", "--knn_k", "3"]
TABLE = [*TINY, "--dataset", "table.csv", "--group_by", "shade"]
QUERIES = [*TINY, "--dataset", "queries", "--recall_k", "1", "5"]
CHOOSE = [*TINY, "--dataset", "choose"]
COLLECTION = [*TINY, "--dataset", "collection"]
TEXTS = [*TINY, "--dataset", "texts", "--task", "text_retrieval"]
OWN = ["--model", "python:own_encoder:Colours", "--dataset", "photos"]
ASK = ["--model", "python:own_vlm:Looker", "--dataset", "asks.tsv"]
OWN_TASK = [*CLASSIFY, "--task", "python:own_task:Spread"]
LISTED = [*CLASSIFY, "--custom_classname_file", "classes.txt", "--custom_template_file", "templates.txt"]


@dataclass(frozen=True)
class Fault:
    """One edit of a file below src/eyechart: the text must occur there exactly once."""

    path: str
    old: str
    new: str


@dataclass(frozen=True)
class Change:
    """One input changed between two runs.

    `{name}` in a word of the command is replaced by a variable of `serve`, a local server that runs during all runs.
    Numbers from the cache may differ from fresh ones only if `notice` is set and the result carries a notice with that
    text: nothing here can see the weights behind a URL. `refused`: no run may give a number. `occupied`: the output
    then holds the result of another job, which must not be overwritten. `repeated`: the first run after the change
    may refuse once. `defence` disables the check that this change relies on: with it, the change must go wrong, which
    proves that the change can fail.
    """

    name: str
    words: list[str]
    make: Callable[[Path], object] = bool
    words_after: list[str] | None = None
    variables: dict[str, str] = field(default_factory=dict)
    prepare: Callable[[Path], object] = bool
    serve: Callable[[Path], AbstractContextManager[Mapping[str, str]]] | None = None
    notice: str = ""
    refused: bool = False
    occupied: bool = False
    repeated: bool = False
    defence: tuple[Fault, ...] = ()


def guarded(changes: list[Change], defences: Mapping[str, tuple[Fault, ...]]) -> list[Change]:
    """Add the defence of each change: that of the longest entry its name begins with."""
    prefixes = sorted(defences, key=len)
    return [
        dataclasses.replace(
            change, defence=defences[[prefix for prefix in prefixes if change.name.startswith(prefix)][-1]]
        )
        for change in changes
    ]


# ---------------------------------------------------------------------------------------------- ways to change a file


def replace(path: str, old: str, new: str, world: Path) -> None:
    """Replace a text in a file, once."""
    file = world / path
    text = file.read_text()
    if old not in text:
        raise ValueError(f"{path} has no {old!r}")
    file.write_text(text.replace(old, new, 1))


def write(path: str, content: bytes, world: Path) -> None:
    (world / path).write_bytes(content)


def as_before(change: Callable[[Path], object], path: str, world: Path) -> None:
    """Change a file and restore its timestamps, as rsync -t and reproducible archives do."""
    before = (world / path).stat()
    change(world)
    os.utime(world / path, ns=(before.st_atime_ns, before.st_mtime_ns))


def weights(path: str, world: Path) -> None:
    """Roll the weights of an ONNX file: same size, other numbers."""
    import onnx
    from onnx import numpy_helper

    model = onnx.load(world / path)
    for tensor in model.graph.initializer:
        value = numpy_helper.to_array(tensor)
        if value.dtype.kind == "f" and value.size > 100:
            tensor.CopyFrom(numpy_helper.from_array(np.roll(value, 7), tensor.name))
    onnx.save(model, world / path)


def external(world: Path, name: str = "weights.bin") -> None:
    """Move the weights of the image tower into a separate file."""
    import onnx

    model = onnx.load(world / "model" / "image.onnx")
    onnx.save(model, world / "model" / "image.onnx", save_as_external_data=True, location=name, size_threshold=100)


def swap_tokens(world: Path) -> None:
    """Reverse the order of the tokens with ids of three digits: same size."""
    file = world / "model" / "tokenizer.json"
    text = file.read_text()
    ids = re.findall(r'": (\d{3})(?=[,\n])', text)
    other = dict(zip(ids, reversed(ids), strict=True))
    file.write_text(re.sub(r'": (\d{3})(?=[,\n])', lambda found: f'": {other[found[1]]}', text))


def roll_bytes(path: str, world: Path) -> None:
    file = world / path
    data = np.frombuffer(file.read_bytes(), np.float32)
    file.write_bytes(np.roll(data, 5).tobytes())


def json_value(path: str, key: str, value: object, world: Path) -> None:
    body = json.loads((world / path).read_text())
    body[key] = value
    (world / path).write_text(json.dumps(body))


def in_tar(path: str, change: Callable[[str, bytes], tuple[str, bytes] | None], world: Path) -> None:
    """Rewrite the members of a tar; None removes one."""
    with tarfile.open(world / path) as tar:
        members = [(member.name, tar.extractfile(member).read()) for member in tar]
    with tarfile.open(world / path, "w") as tar:
        for name, data in members:
            changed = change(name, data)
            if changed is not None:
                member = tarfile.TarInfo(changed[0])
                member.size = len(changed[1])
                tar.addfile(member, io.BytesIO(changed[1]))


def reorder(path: str, world: Path) -> None:
    """Move the last sample of a tar to the front."""
    with tarfile.open(world / path) as tar:
        members = [(member.name, tar.extractfile(member).read()) for member in tar]
    with tarfile.open(world / path, "w") as tar:
        for name, data in (*members[-2:], *members[:-2]):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))


def npy(values: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, values)
    return stream.getvalue()


def member(pattern: str, new: bytes) -> Callable[[str, bytes], tuple[str, bytes]]:
    return lambda name, data: (name, new if re.fullmatch(pattern, name) else data)


def part(world: Path, change: Callable[[dict[str, np.ndarray], bytes], bytes], role: str = "image") -> None:
    """Damage the stored vectors of a role."""
    from safetensors.numpy import load_file

    for file in (world / "cache" / "embeddings").glob(f"*/{role}/[0-9]*.safetensors"):
        file.write_bytes(change(load_file(file), file.read_bytes()))


def swap(name: str, made: Callable[[np.ndarray], np.ndarray]) -> Callable[[dict[str, np.ndarray], bytes], bytes]:
    return lambda tensors, data: data.replace(
        tensors[name].tobytes(), made(tensors[name]).astype(tensors[name].dtype).tobytes()
    )


def in_cache(pattern: str, content: Callable[[bytes], bytes], world: Path) -> None:
    found = [file for file in (world / "cache").glob(pattern) if file.is_file()]
    if not found:
        raise ValueError(f"nothing in the cache is {pattern}")
    for file in found:
        file.write_bytes(content(file.read_bytes()))


def in_results(pattern: str, content: Callable[[bytes], bytes], world: Path) -> None:
    for file in (world / "first").glob(pattern):
        file.write_bytes(content(file.read_bytes()))


def edited_metric(data: bytes) -> bytes:
    body = json.loads(data)
    name = next(iter(body["metric_values"]))
    body["metrics"][name] = 0.123456
    body["metric_values"][name]["value"] = 0.123456
    return json.dumps(body).encode()


def flipped(data: bytes) -> bytes:
    broken = bytearray(data)
    broken[len(broken) // 2] ^= 0xFF
    return bytes(broken)


def other_card(world: Path) -> None:
    """Replace the model's card by that of another one."""
    for file in (world / "cache" / "cards").glob("*.json"):
        body = json.loads(file.read_text())
        target = body if "weights_digest" in body else next(v for v in body.values() if isinstance(v, dict))
        target["weights_digest"] = "0" * 32
        file.write_text(json.dumps(body))


IMAGE = "photos/test/shirt/0.png"
NEW = png(draw(999))


def same_size_image(world: Path) -> None:
    """Replace an image by another of the same size in bytes."""
    file = world / IMAGE
    size = file.stat().st_size
    other = next(data for seed in range(1000, 9000) if len(data := png(draw(seed))) == size)
    file.write_bytes(other)


def rename_class(world: Path) -> None:
    for split in ("train", "test"):
        (world / "photos" / split / "bag").rename(world / "photos" / split / "umbrella")
