"""The changes that `trust.py` makes: one input each."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import tarfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
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
class Change:
    """One input changed between two runs."""

    name: str
    words: list[str]
    make: Callable[[Path], object] = bool
    words_after: list[str] | None = None
    variables: dict[str, str] = field(default_factory=dict)


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


CHANGES = [
    # ------------------------------------------------------------------------------------------------------ weights
    Change("weights: image tower", CLASSIFY, partial(weights, "model/image.onnx")),
    Change("weights: text tower", CLASSIFY, partial(weights, "model/text.onnx")),
    Change(
        "weights: same size and time",
        CLASSIFY,
        partial(as_before, partial(weights, "model/image.onnx"), "model/image.onnx"),
    ),
    Change(
        "weights: text tower, same time",
        CLASSIFY,
        partial(as_before, partial(weights, "model/text.onnx"), "model/text.onnx"),
    ),
    Change(
        "weights: replaced by a renamed file",
        CLASSIFY,
        lambda w: (
            weights("model/image.onnx", w),
            shutil.copy(w / "model/image.onnx", w / "x"),
            (w / "x").replace(w / "model/image.onnx"),
        ),
    ),
    Change("weights: moved to external data", CLASSIFY, external),
    Change(
        "weights: external data of another name", CLASSIFY, lambda w: (external(w), roll_bytes("model/weights.bin", w))
    ),
    Change(
        "weights: through a link to another file",
        CLASSIFY,
        lambda w: (
            shutil.copytree(w / "model", w / "model2"),
            weights("model2/image.onnx", w),
            (w / "model/image.onnx").unlink(),
            (w / "model/image.onnx").symlink_to(w / "model2/image.onnx"),
        ),
    ),
    Change(
        "weights: towers swapped for another model's",
        CLASSIFY,
        lambda w: [weights(f"model/{t}.onnx", w) for t in ("image", "text")],
    ),
    # --------------------------------------------------------------------------------------- tokenizer and config
    Change(
        "tokenizer: another vocabulary order",
        CLASSIFY,
        lambda w: replace("model/tokenizer.json", '"shirt', '"zhirt', w),
    ),
    Change(
        "tokenizer: same size and time",
        CLASSIFY,
        partial(as_before, partial(replace, "model/tokenizer.json", '"shirt', '"zhirt'), "model/tokenizer.json"),
    ),
    Change("config: context length", CLASSIFY, partial(json_value, "model/eyechart.json", "context_length", 4)),
    Change(
        "config: logit scale",
        [*CLASSIFY, "--metrics", "full"],
        partial(json_value, "model/eyechart.json", "logit_scale", 3.0),
    ),
    Change(
        "config: image mean",
        CLASSIFY,
        partial(json_value, "model/preprocessor_config.json", "image_mean", [0.1, 0.9, 0.4]),
    ),
    Change(
        "config: image size",
        CLASSIFY,
        lambda w: json_value("model/preprocessor_config.json", "size", {"height": 16, "width": 16}, w),
    ),
    Change("config: a file that means nothing", CLASSIFY, partial(write, "model/README.md", b"hello")),
    # -------------------------------------------------------------------------------------------------- own code
    Change("code: a line of a model", OWN, partial(replace, "own_encoder.py", "/ 255 + 0.01", "/ 200 + 0.3")),
    Change("code: what a model imports", OWN, partial(write, "helper_module.py", b"STRENGTH = 3\n")),
    Change("code: a model's letters", OWN, partial(replace, "own_encoder.py", "ord(c) % 8", "ord(c) % 5")),
    Change(
        "code: a model, same time",
        OWN,
        partial(as_before, partial(replace, "own_encoder.py", "ord(c) % 8", "ord(c) % 7"), "own_encoder.py"),
    ),
    Change("code: a task", OWN_TASK, partial(replace, "own_task.py", "* 1)", "* 2)")),
    Change("code: a generative model", ASK, partial(replace, "own_vlm.py", '"AB"[', '"BA"[')),
    # --------------------------------------------------------------------------------------------------- images
    Change("image: replaced in a folder", CLASSIFY, partial(write, IMAGE, NEW)),
    Change("image: same size", CLASSIFY, same_size_image),
    Change("image: same size and time", CLASSIFY, partial(as_before, same_size_image, IMAGE)),
    Change(
        "image: two exchanged",
        CLASSIFY,
        lambda w: (
            shutil.move(w / IMAGE, w / "t"),
            shutil.move(w / "photos/test/bag/2.png", w / IMAGE),
            shutil.move(w / "t", w / "photos/test/bag/2.png"),
        ),
    ),
    Change("image: added", CLASSIFY, partial(write, "photos/test/shirt/new.png", NEW)),
    Change("image: removed", CLASSIFY, lambda w: (w / IMAGE).unlink()),
    Change("image: moved to another class", CLASSIFY, lambda w: shutil.move(w / IMAGE, w / "photos/test/bag/0.png")),
    Change(
        "image: zeros in its second half",
        CLASSIFY,
        lambda w: write(IMAGE, (w / IMAGE).read_bytes()[:60] + bytes(60), w),
    ),
    Change("image: replaced in a table", TABLE, partial(write, "files/3.png", NEW)),
    Change("image: replaced beside queries", QUERIES, partial(write, "queries/3.png", NEW)),
    Change("image: replaced in a tar", WDS, partial(in_tar, "wds_c/test/0.tar", member(r"s003\.png", NEW))),
    Change("image: of the training split", PROBE, partial(write, "photos/train/shirt/0.png", NEW)),
    Change("image: of a collection", COLLECTION, partial(write, "collection/5.png", NEW)),
    Change("image: of a selection", CHOOSE, partial(write, "choose/5.png", NEW)),
    # ----------------------------------------------------------------------------------------- captions and labels
    Change("caption: in a tar", RETRIEVE, partial(in_tar, "wds_r/test/0.tar", member(r"s003\.txt", b"something else"))),
    Change(
        "caption: one more",
        RETRIEVE,
        partial(in_tar, "wds_r/test/0.tar", lambda n, d: (n, d + b"\nand more" if n == "s003.txt" else d)),
    ),
    Change(
        "caption: in image_queries.jsonl",
        QUERIES,
        partial(replace, "queries/image_queries.jsonl", "number 3", "number 77"),
    ),
    Change("caption: cleaned", RETRIEVE, words_after=[*RETRIEVE, "--caption_cleaning", "internvl"]),
    Change("label: in a tar", WDS, partial(in_tar, "wds_c/test/0.tar", member(r"s003\.cls", b"0"))),
    Change("label: out of range", WDS, partial(in_tar, "wds_c/test/0.tar", member(r"s003\.cls", b"9"))),
    Change("label: in a table", TABLE, partial(replace, "table.csv", "files/5.png,trouser", "files/5.png,bag")),
    Change(
        "label: group of a row", TABLE, partial(replace, "table.csv", "files/3.png,boot,light", "files/3.png,boot,dark")
    ),
    Change(
        "label: multilabel vector too long",
        MULTI,
        partial(
            in_tar,
            "wds_m/test/0.tar",
            member(r"s003\.npy", npy(np.ones(9))),
        ),
    ),
    Change("candidate: of a selection", CHOOSE, partial(replace, "choose/questions.jsonl", "a trouser", "a cat")),
    # ----------------------------------------------------------------------------------------- classes and prompts
    Change("class name: in classnames.txt", WDS, partial(replace, "wds_c/classnames.txt", "bag", "umbrella")),
    Change("class name: folder renamed", CLASSIFY, rename_class),
    Change("class name: line separator inside", WDS, partial(replace, "wds_c/classnames.txt", "bag", "b\u2028ag")),
    Change("class name: vertical tab inside", LISTED, partial(replace, "classes.txt", "bag", "b\x0bag")),
    Change("class name: blank line", LISTED, partial(replace, "classes.txt", "bag", "")),
    Change("class name: custom file", LISTED, partial(replace, "classes.txt", "bag", "umbrella")),
    Change("class name: order", LISTED, partial(write, "classes.txt", b"boot\nbag\ntrouser\nshirt\n")),
    Change(
        "template: of the dataset",
        WDS,
        partial(replace, "wds_c/zeroshot_classification_templates.txt", "photo", "drawing"),
    ),
    Change("template: custom file", LISTED, partial(replace, "templates.txt", "the {c}", "not a {c}")),
    # ------------------------------------------------------------------------------------------------ data as a whole
    Change("tar: cut", WDS, lambda w: write("wds_c/test/1.tar", (w / "wds_c/test/1.tar").read_bytes()[:4000], w)),
    Change(
        "tar: zeros at the end",
        WDS,
        lambda w: write("wds_c/test/1.tar", (w / "wds_c/test/1.tar").read_bytes()[:6144].ljust(40960, b"\0"), w),
    ),
    Change("tar: samples in another order", WDS, partial(reorder, "wds_c/test/0.tar")),
    Change("tar: nshards.txt is smaller", WDS, partial(write, "wds_c/test/nshards.txt", b"1")),
    Change("tar: a shard is missing", WDS, lambda w: (w / "wds_c/test/1.tar").unlink()),
    Change("relevance: of a collection", COLLECTION, partial(replace, "collection/qrels/test.tsv", "q3\td3", "q3\td4")),
    Change("document: of a collection", COLLECTION, partial(replace, "collection/corpus.jsonl", "item 3", "object 3")),
    Change("query: of a collection", COLLECTION, partial(replace, "collection/queries.jsonl", "number 3", "number 9")),
    Change("document: of texts", TEXTS, partial(replace, "texts/corpus.jsonl", "number 21", "number 22")),
    Change("query: of texts", TEXTS, partial(replace, "texts/queries.jsonl", "boot 21", "boot 22")),
    Change("relevance: of texts", TEXTS, partial(replace, "texts/qrels/test.tsv", "q3\td3", "q3\td4")),
    Change("question: words", ASK, partial(replace, "asks.tsv", "what is it?\t", "what is it now?\t")),
    Change("question: answer", ASK, partial(replace, "asks.tsv", "\tyes\tno\tA\t", "\tyes\tno\tB\t")),
    # -------------------------------------------------------------------------------------------- settings and options
    Change("option: split", CLASSIFY, words_after=[*CLASSIFY, "--split", "train"]),
    Change("option: limit", CLASSIFY, words_after=[*CLASSIFY, "--limit", "7"]),
    Change("option: recall_k", RETRIEVE, words_after=[*RETRIEVE[:-2], "2"]),
    Change("option: metrics", CLASSIFY, words_after=[*CLASSIFY, "--metrics", "full"]),
    Change("option: neighbours", PROBE, words_after=[*PROBE[:-1], "7"]),
    Change("option: groups", [*TINY, "--dataset", "table.csv"], words_after=TABLE),
    Change("option: precision", CLASSIFY, words_after=[*CLASSIFY, "--precision", "fp32"]),
    Change("option: context length", CLASSIFY, words_after=[*CLASSIFY, "--model_option", "context_length=4"]),
    Change("option: extractor", ASK, words_after=[*ASK, "--extractor", "strict"]),
    Change("option: system prompt", ASK, words_after=[*ASK, "--system_prompt", "be brief"]),
    # ------------------------------------------------------------------------------------------------ the store
    Change("store: a flipped byte of a vector", CLASSIFY, lambda w: part(w, lambda _, d: flipped(d))),
    Change(
        "store: a row of NaN",
        CLASSIFY,
        lambda w: part(w, swap("vectors", lambda v: np.where(np.arange(len(v))[:, None] == 2, np.nan, v))),
    ),
    Change(
        "store: a row of zeros",
        CLASSIFY,
        lambda w: part(w, swap("vectors", lambda v: np.where(np.arange(len(v))[:, None] == 2, 0, v))),
    ),
    Change("store: keys rolled by one", CLASSIFY, lambda w: part(w, swap("keys", lambda k: np.roll(k, 1, axis=0)))),
    Change(
        "store: texts' keys rolled by one",
        CLASSIFY,
        lambda w: part(w, swap("keys", lambda k: np.roll(k, 1, axis=0)), "text"),
    ),
    Change("store: vectors shuffled", CLASSIFY, lambda w: part(w, swap("vectors", lambda v: v[::-1]))),
    Change("store: a part is cut", CLASSIFY, lambda w: part(w, lambda _, d: d[:-40])),
    Change("store: a part is empty", CLASSIFY, lambda w: part(w, lambda *_: b"")),
    Change("store: a part of another model", CLASSIFY, lambda w: part(w, lambda _, d: d, "text")),
    # ----------------------------------------------------------------------------------------------------- cards
    Change("card: damaged", CLASSIFY, partial(in_cache, "cards/*.json", lambda d: d[: len(d) // 2])),
    Change("card: empty", CLASSIFY, partial(in_cache, "cards/*.json", lambda _: b"")),
    Change("card: not an object", CLASSIFY, partial(in_cache, "cards/*.json", lambda _: b"[1, 2]")),
    Change(
        "card: of a newer version",
        CLASSIFY,
        partial(in_cache, "cards/*.json", lambda d: d.replace(b"{", b'{"from_the_future": 1, ', 1)),
    ),
    Change("card: not text", CLASSIFY, partial(in_cache, "cards/*.json", lambda _: b"\xff\xfe\x00")),
    Change("card: another model's", CLASSIFY, other_card),
    Change("digests: damaged", CLASSIFY, partial(in_cache, "digests/*.json", lambda d: d[: len(d) // 2])),
    Change("digests: of another form", CLASSIFY, partial(in_cache, "digests/*.json", lambda _: b'{"form": 99}')),
    Change(
        "answers: a damaged line",
        ASK,
        lambda w: [f.write_bytes(f.read_bytes()[:-30] + b"\n") for f in (w / "cache" / "responses").glob("*/*.jsonl")],
    ),
    # ------------------------------------------------------------------------------------------- results and records
    Change("result: half-written", CLASSIFY, partial(in_results, "*.json", lambda d: d[: len(d) // 2])),
    Change(
        "result: of another job",
        CLASSIFY,
        partial(in_results, "*.json", lambda d: d.replace(b'"model": "m"', b'"model": "n"', 1)),
    ),
    Change("result: metrics changed by hand", CLASSIFY, partial(in_results, "*.json", edited_metric)),
    Change("records: cut", CLASSIFY, partial(in_results, "*.records.jsonl", lambda d: d[: len(d) // 2])),
    Change(
        "records: changed",
        CLASSIFY,
        partial(in_results, "*.records.jsonl", lambda d: d.replace(b'"rank": 1', b'"rank": 2', 1)),
    ),
]
