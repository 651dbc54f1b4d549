"""Fuzz targets that read datasets: images, archives, rows, tables."""

from __future__ import annotations

import base64
import csv
import io
import json
import os
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

import numpy as np
from fuzz_mutate import (
    mutate_bytes,
    mutate_json_lines,
    mutate_tar,
    mutate_zip,
)

from eyechart.compat.vlmevalkit import ImageBaseDataset
from eyechart.datasets import annotation_files, image_table, selection, text_collection
from eyechart.datasets.questions.benchmark_files import VARIABLE
from eyechart.datasets.questions.prediction_files import load_table, read_xlsx, write_xlsx
from eyechart.datasets.questions.prompt_items import to_messages
from eyechart.datasets.webdataset import open_webdataset
from eyechart.io.images import decode_image
from eyechart.manifest import read_manifest
from eyechart.types import DatasetSpec

Mutate = Callable[[Random, Sequence[bytes], Sequence[bytes]], bytes]


@dataclass(frozen=True)
class Target:
    """A reader of untrusted bytes: their generator, and the function that reads them."""

    share: int
    """Its share per thousand inputs."""
    seeds: Callable[[], list[bytes]]
    run: Callable[[bytes, Path], object]
    mutate: Mutate = mutate_bytes
    tokens: tuple[bytes, ...] = ()


def png(size: tuple[int, int] = (6, 4), form: str = "PNG", mode: str = "RGB") -> bytes:
    """Encode a small image."""
    from PIL import Image

    stream = io.BytesIO()
    Image.new(mode, size, 77).save(stream, form)
    return stream.getvalue()


# ------------------------------------------------------------------------------------------------ images


def image_seeds() -> list[bytes]:
    forms = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "JPEG2000")
    return [png((9, 7), form) for form in forms] + [png((9, 7), "PNG", mode) for mode in ("L", "P", "1", "I;16", "LA")]


def read_image(data: bytes, _: Path) -> None:
    decode_image(data, "image").convert("RGB")


# ------------------------------------------------------------------------------------------------ archives


def tar_seeds() -> list[bytes]:
    stream = io.BytesIO()
    np.save(stream, np.array([0, 1, 1]))
    members = [
        ("s0.png", png()),
        ("s0.cls", b"1"),
        ("s0.txt", b"a dog\na cat"),
        ("s0.npy", stream.getvalue()),
        ("d/s1.de.txt", b"ein Hund"),
        ("d/s1.jpg", png(form="JPEG")),
        ("d/s1.cls", b"0"),
        ("d/s1.txt", b"x"),
        ("d/s1.npy", stream.getvalue()),
    ]
    return [_tar(members, form) for form in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)]


def _tar(members: list[tuple[str, bytes]], form: int) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=form) as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return stream.getvalue()


def read_tar(data: bytes, folder: Path) -> None:
    (folder / "test").mkdir(exist_ok=True)
    (folder / "classnames.txt").write_text("cat\ndog\nbird\n")
    (folder / "test" / "nshards.txt").write_text("1")
    (folder / "test" / "0.tar").write_bytes(data)
    kind = ("classification", "retrieval", "multilabel")[len(data) // 512 % 3]
    (folder / "dataset_type.txt").write_text("" if kind == "classification" else kind)
    read_manifest(open_webdataset(DatasetSpec("wds/x", "wds", str(folder))))


# ------------------------------------------------------------------------------------------------ rows and tables


def spec(root: Path) -> DatasetSpec:
    return DatasetSpec("fuzz", "fuzz", str(root))


def jsonl_seeds() -> list[bytes]:
    rows = [
        {"image_path": "a.png", "query": ["a dog", "ein Hund"], "id": 7},
        {"image_path": "a.png", "query": "x"},
        {"id": "q", "images": ["a.png", "b.png"], "texts": ["x", "y"], "right": [[0, 0], [1, 1]]},
        {"image_1": "a.png", "image_2": "b.png", "score": 3.5},
        {"_id": 1, "text": "words", "title": "t"},
        {"query-id": 1, "corpus-id": "1", "score": 1},
        {"path": "a.png", "label": "cat"},
    ]
    lines = [json.dumps(row).encode() for row in rows]
    return [b"\n".join(lines[:2]), b"\n".join(lines[2:3]), lines[3], lines[4], lines[5], lines[6], b"\n".join(lines)]


def read_jsonl(data: bytes, folder: Path) -> None:
    for name in ("a.png", "b.png"):
        if not (folder / name).is_file():
            (folder / name).write_bytes(png())
    reader, name = JSONL_READERS[len(data) % len(JSONL_READERS)]
    (folder / name).write_bytes(data)
    reader(folder)


def _read_collection(folder: Path) -> None:
    (folder / "queries.jsonl").write_text('{"_id": 1, "text": "q"}\n')
    (folder / "qrels.jsonl").write_text('{"query-id": 1, "corpus-id": 1, "score": 1}\n')
    text_collection.read_collection(folder)


def _read_qrels(folder: Path) -> None:
    for name in ("corpus.jsonl", "queries.jsonl"):
        (folder / name).write_text('{"_id": 1, "text": "q"}\n')
    text_collection.read_collection(folder)


JSONL_READERS: Sequence[tuple[Callable[[Path], object], str]] = (
    (lambda folder: read_manifest(annotation_files.open_jsonl(spec(folder))), "image_queries.jsonl"),
    (lambda folder: read_manifest(selection.open_selection(spec(folder))), "questions.jsonl"),
    (lambda folder: read_manifest(annotation_files.open_pairs(spec(folder))), "pairs.jsonl"),
    (lambda folder: read_manifest(image_table.open_table(spec(folder / "t.jsonl"))), "t.jsonl"),
    (_read_collection, "corpus.jsonl"),
    (_read_qrels, "qrels.jsonl"),
    (lambda folder: load_table(folder / "p.jsonl"), "p.jsonl"),
)


def tsv_seeds() -> list[bytes]:
    cell = base64.b64encode(png()).decode()
    rows = [
        ["index", "image", "question", "A", "B", "answer"],
        ["0", cell, "what?", "cat", "dog", "A"],
        ["1", "0", 'so "quoted"\tcell', "x\ny", "", "B"],
    ]
    named = [["index", "image_path", "question", "answer"], ["a", "a.png", "q", "yes"], ["b", "['a.png']", "q", "no"]]
    plain = [["image", "caption"], ["a.png", "a dog"]]
    return [_delimited(table_rows, "\t") for table_rows in (rows, named, plain)] + [_delimited(plain, ",")]


def _delimited(rows: list[list[str]], mark: str) -> bytes:
    stream = io.StringIO()
    csv.writer(stream, delimiter=mark, lineterminator="\n").writerows(rows)
    return stream.getvalue().encode()


def read_table(data: bytes, folder: Path) -> None:
    os.environ[VARIABLE] = str(folder / "lmu")
    if not (folder / "a.png").is_file():
        (folder / "a.png").write_bytes(png())
    kind = len(data) % 4
    path = folder / ("t.tsv" if kind else "t.csv")
    path.write_bytes(data)
    if kind < 2:
        load_table(path)
        read_manifest(image_table.open_table(spec(path)))
        return
    dataset = ImageBaseDataset("fuzz", file=path)
    for row in dataset.questions.rows[:20]:
        to_messages(dataset.build_prompt(row), "row")


@cache
def xlsx_seeds() -> list[bytes]:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        path = Path(folder) / "p.xlsx"
        write_xlsx(path, ["index", "prediction"], [[1, "=x"], [2, None], [3, "_x0041_"], [4, 1.5], [5, True]])
        return [path.read_bytes()]


def read_spreadsheet(data: bytes, folder: Path) -> None:
    path = folder / "p.xlsx"
    path.write_bytes(data)
    read_xlsx(path)


XLSX_TOKENS = (
    b'<row r="2000000000">',
    b'<c r="XFD1" t="s">',
    b'<c r="ZZZZZZ9" t="n"><v>1</v></c>',
    b't="s"',
    b't="e"',
    b't="d"',
    b'<dimension ref="A1:XFD1048576"/>',
    b"<v>99999999</v>",
    b"<v>-1</v>",
    b"<v>x</v>",
    b"<is><t>",
    b"</row>",
    b"<!DOCTYPE x [<!ENTITY a 'b'>]>",
    b"&a;",
    b'r="A0"',
    b'r=""',
    b'r="1.5"',
    b's="99"',
    b"<f>1</f>",
    b'<mergeCell ref="A1:B2"/>',
    b't="b"',
    b't="inlineStr"',
)

FILE_TARGETS: dict[str, Target] = {
    "images": Target(50, image_seeds, read_image),
    "tar": Target(50, tar_seeds, read_tar, mutate_tar),
    "jsonl": Target(90, jsonl_seeds, read_jsonl, mutate_json_lines),
    "tsv": Target(
        60, tsv_seeds, read_table, tokens=(b"\t", b'"', b'""', b"\n", b"index", b"image_path", b"http://x/a.png")
    ),
    "xlsx": Target(15, xlsx_seeds, read_spreadsheet, mutate_zip, XLSX_TOKENS),
}
"""Readers of files."""
