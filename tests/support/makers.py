"""A small benchmark for every task: what tests that hold for all tasks are run on.

A maker writes a dataset and says which task reads it. A new task gets a maker here, and with it all those tests.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from support.data import noise_image, write_classification, write_multilabel, write_retrieval
from support.encoders import SmallEncoder
from support.tasks import make_context, run_task

CLASSES = tuple(f"class {i}" for i in range(8))
OPTIONS = {"recall_k": [1, 5, 10], "metrics": "full", "fewshot_epochs": 2}


@dataclass(frozen=True)
class Maker:
    """A benchmark that can be written anywhere."""

    task: str
    write: Callable[[Path], Path]
    primary: frozenset[str]
    """The metrics that stand for the benchmark."""
    reader: str = "wds"
    options: Mapping[str, Any] = field(default_factory=dict)
    looks_at: str = "images and texts"
    """A model that does not look at one of these gets nothing."""

    def run(self, root: Path, encoder: SmallEncoder, store: Path):
        """Run the task on the dataset that was written to ``root``."""
        context = make_context(root, encoder, store, reader=self.reader)
        return run_task(self.task, context, **{**OPTIONS, **self.options})


def labels(n: int, *, lopsided: bool) -> list[int]:
    """Return labels of eight classes: all as often, or five of six in the first class, and one class without any."""
    return [0 if i % 6 else (i // 6) % 7 for i in range(n)] if lopsided else [i % 8 for i in range(n)]


def _classes(lopsided: bool) -> Callable[[Path], Path]:
    return lambda root: write_classification(root, classes=CLASSES, labels=labels(60, lopsided=lopsided))


def _splits(lopsided: bool) -> Callable[[Path], Path]:
    def write(root: Path) -> Path:
        # The training images are others than those that are scored: noise that was seen would be known.
        write_classification(root, classes=CLASSES, labels=labels(48, lopsided=lopsided))
        train = labels(100, lopsided=lopsided)
        return write_classification(root, classes=CLASSES, labels=train, split="train", first=1000)

    return write


def _multilabel(share: list[float]) -> Callable[[Path], Path]:
    def write(root: Path) -> Path:
        rows = (np.random.default_rng(0).random((60, 8)) < share).astype(int)
        rows[0] = 1
        return write_multilabel(root, labels=rows.tolist(), classes=CLASSES)

    return write


def _captions(captions: list[list[str]]) -> Callable[[Path], Path]:
    return lambda root: write_retrieval(root, captions=captions)


def _save_images(root: Path, n: int) -> None:
    root.mkdir(parents=True, exist_ok=True)
    for i in range(n):
        noise_image(i).save(root / f"{i}.png")


def _rows(root: Path, name: str, rows: list[dict[str, Any]]) -> None:
    (root / name).write_text("\n".join(map(json.dumps, rows)))


def _collection(root: Path) -> Path:
    _save_images(root, 40)
    documents = [
        {"_id": f"d{i}", "image": f"{i}.png"} if i % 2 else {"_id": f"d{i}", "text": f"text {i}"} for i in range(30)
    ]
    queries = [{"_id": f"q{i}", "image": f"{30 + i}.png"} for i in range(10)]
    relevance = [
        {"query-id": f"q{i}", "corpus-id": f"d{(3 * i + j) % 30}", "score": 1} for i in range(10) for j in range(3)
    ]
    for name, rows in (("corpus", documents), ("queries", queries), ("qrels", relevance)):
        _rows(root, f"{name}.jsonl", rows)
    return root


def _texts(root: Path) -> Path:
    root.mkdir(parents=True)
    documents = [{"_id": f"d{i}", "text": f"text {i}"} for i in range(30)]
    queries = [{"_id": f"q{i}", "text": f"query {i}"} for i in range(20)]
    relevance = [
        {"query-id": f"q{i}", "corpus-id": f"d{(i + 7 * j) % 30}", "score": 1 + j} for i in range(20) for j in range(3)
    ]
    for name, rows in (("corpus", documents), ("queries", queries), ("qrels", relevance)):
        (root / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return root


def _selection(root: Path) -> Path:
    _save_images(root, 60)
    rows = [
        {"images": [f"{2 * i}.png", f"{2 * i + 1}.png"], "texts": [f"one {i}", f"two {i}"]}
        if i % 2
        else {"images": [f"{2 * i}.png"], "texts": [f"right {i}", f"wrong {i}"]}
        for i in range(30)
    ]
    _rows(root, "questions.jsonl", rows)
    return root


def _associations(root: Path) -> Path:
    _save_images(root, 60)
    few = [
        {"images": [f"{5 * i + j}.png" for j in range(5)], "texts": [f"cue {i}"], "right": [[0, 0], [1, 0]]}
        for i in range(8)
    ]
    many = [
        {
            "images": [f"{(10 * i + j) % 60}.png" for j in range(10)],
            "texts": [f"{i} cue"],
            "right": [[j, 0] for j in range(3)],
        }
        for i in range(4)
    ]
    _rows(root, "questions.jsonl", few + many)
    return root


def _similarity(root: Path) -> Path:
    _save_images(root, 40)
    _rows(root, "pairs.jsonl", [{"image_1": f"{i}.png", "image_2": f"{39 - i}.png", "score": i % 6} for i in range(40)])
    return root


_ACC1, _MAP = frozenset({"acc1"}), frozenset({"mean_average_precision"})
_RECALLS = frozenset({"image_retrieval_recall@1", "text_retrieval_recall@1"})
_PROBES = {"knn": "knn_acc1", "logistic_probe": "lp_acc1", "linear_probe": "lp_acc1"}

MAKERS: dict[str, Maker] = {
    "classification": Maker("zeroshot_classification", _classes(lopsided=False), _ACC1),
    "classification, lopsided": Maker("zeroshot_classification", _classes(lopsided=True), _ACC1),
    "several labels": Maker("zeroshot_classification", _multilabel([0.5] * 8), _MAP),
    "several labels, lopsided": Maker("zeroshot_classification", _multilabel([0.9, 0.9, *[0.1] * 6]), _MAP),
    "retrieval": Maker(
        "zeroshot_retrieval", _captions([[f"caption {i} {j}" for j in range(1 + i % 3)] for i in range(40)]), _RECALLS
    ),
    "retrieval, lopsided": Maker(
        "zeroshot_retrieval",
        _captions([[f"caption {i} {j}" for j in range(30 if i == 7 else 1)] for i in range(30)]),
        _RECALLS,
    ),
    "retrieval, ten images per caption": Maker(
        "zeroshot_retrieval", _captions([[f"a product of kind {i // 10}"] for i in range(40)]), _RECALLS
    ),
    "retrieval, some captions repeat": Maker(
        "zeroshot_retrieval",
        _captions([[f"caption {i // 3}", f"caption {i} {i % 2}", "a photo"][: 1 + i % 3] for i in range(30)]),
        _RECALLS,
    ),
    "collection": Maker("zeroshot_retrieval", _collection, frozenset({"ndcg_at_10"}), "collection", looks_at="images"),
    "texts": Maker("text_retrieval", _texts, frozenset({"ndcg_at_10"}), "text_collection", looks_at="texts"),
    "selection": Maker("image_caption_selection", _selection, frozenset({"acc"}), "selection"),
    "associations": Maker("image_caption_selection", _associations, frozenset({"acc"}), "selection"),
    "similarity": Maker("visual_sts", _similarity, frozenset({"spearman"}), "pairs", looks_at="images"),
    "clustering": Maker("clustering", _classes(lopsided=False), frozenset({"nmi"}), looks_at="images"),
    "clustering, lopsided": Maker("clustering", _classes(lopsided=True), frozenset({"nmi"}), looks_at="images"),
    **{
        f"{task}{how}": Maker(task, _splits(lopsided=bool(how)), frozenset({primary}), looks_at="images")
        for task, primary in _PROBES.items()
        for how in ("", ", lopsided")
    },
    **{
        f"knn in folds{how}": Maker(
            "knn", _classes(lopsided=bool(how)), frozenset({"knn_acc1"}), options={"folds": 3}, looks_at="images"
        )
        for how in ("", ", lopsided")
    },
}
"""By what it is; lopsided ones have classes (or captions of an image) of very different sizes."""
