"""A small world for `trust.py`: a model in a folder, datasets in several formats, and user code."""

from __future__ import annotations

import io
import json
import shutil
import tarfile
from pathlib import Path

import numpy as np
from PIL import Image

from eyechart.demo import model_folder

NAMES = ("shirt", "trouser", "bag", "boot")
N = 24

ENCODER = '''
import numpy as np
from helper_module import STRENGTH


class Colours:
    """Vectors from mean colours and from letters."""

    def encode_images(self, images):
        return np.stack([np.tile(np.asarray(i, float).mean((0, 1)), 4)[:8] / 255 + 0.01 for i in images]) ** STRENGTH

    def encode_texts(self, texts):
        return np.stack([np.bincount([ord(c) % 8 for c in t], minlength=8) + 0.1 for t in texts])
'''
VLM = """
from eyechart.vlm import BaseModel


class Looker(BaseModel):
    def generate_inner(self, message, dataset=None):
        text = next(item["value"] for item in message if item["type"] == "text")
        return "AB"[len(text) % 2]
"""
TASK = """
from dataclasses import dataclass

from eyechart.tasks.base import Prediction, Task
from eyechart.types import Metric, Outcome


@dataclass(frozen=True)
class Sizes(Prediction):
    size: float


class Spread(Task):
    name = "spread"
    kinds = frozenset({"classification"})

    def predict(self, context, settings):
        images = context.model.images(context.manifest)
        return Sizes(context.info, context.manifest.take(images.kept), images.failures, float(images.vectors.std()))

    def score(self, prediction, settings):
        return Outcome({"spread": Metric(prediction.size * 1)}, [])
"""


def make_world(folder: Path) -> Path:
    """Write everything that a run may read."""
    folder.mkdir(parents=True)
    shutil.copytree(model_folder(), folder / "model")
    images = [draw(i) for i in range(2 * N)]
    _photos(folder / "photos", images)
    _table(folder, images)
    _queries(folder / "queries", images)
    _webdataset(folder / "wds_c", images, lambda i: {"cls": str(i % len(NAMES))}, NAMES)
    _webdataset(folder / "wds_m", images, lambda i: {"npy": _vector(i)}, NAMES, kind="multilabel")
    _webdataset(folder / "wds_r", images, lambda i: {"txt": f"a {NAMES[i % 4]} number {i}\nthing {i % 5}"}, ())
    _selection(folder / "choose", images)
    _collection(folder / "collection", images)
    _texts(folder / "texts")
    _questions(folder / "asks.tsv", images)
    (folder / "classes.txt").write_text("\n".join(sorted(NAMES)) + "\n")
    (folder / "templates.txt").write_text("a photo of a {c}\nthe {c}\n")
    for name, text in (
        ("own_encoder", ENCODER),
        ("own_vlm", VLM),
        ("own_task", TASK),
        ("helper_module", "STRENGTH = 1\n"),
    ):
        (folder / f"{name}.py").write_text(text)
    return folder


def draw(seed: int) -> Image.Image:
    """Draw a bright shape; form and shade depend on the seed."""
    rng = np.random.default_rng(seed)
    pixels = np.zeros((32, 32, 3), np.uint8)
    top, left = rng.integers(2, 12, 2)
    pixels[top : top + 8 + 2 * (seed % 4), left : left + 16 - 3 * (seed % 4)] = rng.integers(60, 255, 3)
    return Image.fromarray(pixels)


def png(image: Image.Image) -> bytes:
    stream = io.BytesIO()
    image.save(stream, "PNG")
    return stream.getvalue()


def _photos(folder: Path, images: list[Image.Image]) -> None:
    for split, start in (("train", N), ("test", 0)):
        for i in range(N):
            path = folder / split / NAMES[i % 4] / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(png(images[start + i]))


def _table(folder: Path, images: list[Image.Image]) -> None:
    (folder / "files").mkdir()
    rows = ["path,label,shade"]
    for i in range(N):
        (folder / "files" / f"{i}.png").write_bytes(png(images[i]))
        rows.append(f"files/{i}.png,{NAMES[i % 4]},{'dark' if i % 3 else 'light'}")
    (folder / "table.csv").write_text("\n".join(rows) + "\n")


def _queries(folder: Path, images: list[Image.Image]) -> None:
    folder.mkdir()
    rows = []
    for i in range(N):
        (folder / f"{i}.png").write_bytes(png(images[i]))
        rows.append(json.dumps({"image_path": f"{i}.png", "query": [f"a {NAMES[i % 4]} number {i}"]}))
    (folder / "image_queries.jsonl").write_text("\n".join(rows) + "\n")


def _vector(i: int) -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.array([(i >> bit) & 1 for bit in range(len(NAMES))]))
    return stream.getvalue()


def _webdataset(folder: Path, images, fields, names, kind: str = "") -> None:
    for split, start in (("train", N), ("test", 0)):
        place = folder / split
        place.mkdir(parents=True)
        for shard in range(2):
            with tarfile.open(place / f"{shard}.tar", "w") as tar:
                for i in range(shard * N // 2, (shard + 1) * N // 2):
                    members = {"png": png(images[start + i]), **fields(i)}
                    for ending, data in members.items():
                        body = data if isinstance(data, bytes) else data.encode()
                        member = tarfile.TarInfo(f"s{i:03d}.{ending}")
                        member.size = len(body)
                        tar.addfile(member, io.BytesIO(body))
        (place / "nshards.txt").write_text("2")
    if names:
        (folder / "classnames.txt").write_text("\n".join(names) + "\n")
        (folder / "zeroshot_classification_templates.txt").write_text("a photo of a {c}\n")
    else:
        (folder / "dataset_type.txt").write_text("retrieval")
    if kind:
        (folder / "dataset_type.txt").write_text(kind)


def _selection(folder: Path, images) -> None:
    folder.mkdir()
    rows = []
    for i in range(N):
        (folder / f"{i}.png").write_bytes(png(images[i]))
        texts = [f"a {NAMES[i % 4]}", f"a {NAMES[(i + 1) % 4]}"]
        rows.append(json.dumps({"images": [f"{i}.png"], "texts": texts, "pairs": [[0, 0]]}))
    (folder / "questions.jsonl").write_text("\n".join(rows) + "\n")


def _collection(folder: Path, images) -> None:
    (folder / "qrels").mkdir(parents=True)
    corpus, relevance = [], ["query-id\tcorpus-id\tscore"]
    for i in range(N):
        (folder / f"{i}.png").write_bytes(png(images[i]))
        corpus.append(json.dumps({"_id": f"d{i}", "text": f"item {i}", "image": f"{i}.png"}))
        relevance.append(f"q{i}\td{i}\t1")
    queries = [json.dumps({"_id": f"q{i}", "text": f"a {NAMES[i % 4]} number {i}"}) for i in range(N)]
    (folder / "corpus.jsonl").write_text("\n".join(corpus) + "\n")
    (folder / "queries.jsonl").write_text("\n".join(queries) + "\n")
    (folder / "qrels" / "test.tsv").write_text("\n".join(relevance) + "\n")


def _texts(folder: Path) -> None:
    (folder / "qrels").mkdir(parents=True)
    corpus = [json.dumps({"_id": f"d{i}", "text": f"the {NAMES[i % 4]} with number {i * 7}"}) for i in range(N)]
    queries = [json.dumps({"_id": f"q{i}", "text": f"{NAMES[i % 4]} {i * 7}"}) for i in range(N)]
    relevance = ["query-id\tcorpus-id\tscore", *(f"q{i}\td{i}\t1" for i in range(N))]
    (folder / "corpus.jsonl").write_text("\n".join(corpus) + "\n")
    (folder / "queries.jsonl").write_text("\n".join(queries) + "\n")
    (folder / "qrels" / "test.tsv").write_text("\n".join(relevance) + "\n")


def _questions(path: Path, images) -> None:
    import base64

    rows = ["index\timage\tquestion\tA\tB\tanswer\tcategory"]
    for i in range(N):
        image = base64.b64encode(png(images[i])).decode()
        words = "what is it" + "?" * (i % 3 + 1)
        rows.append(f"{i}\t{image}\t{words}\tyes\tno\t{'AB'[i % 2]}\t{'odd' if i % 2 else 'even'}")
    path.write_text("\n".join(rows) + "\n")
