"""Small data for tasks of MTEB with images, in the layouts of their own repositories on the hub."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image as Pillow

from datasets import ClassLabel, Dataset, Features, Image, disable_progress_bars

disable_progress_bars()
CIFAR10 = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]


WORDS = (
    "red", "blue", "old", "small", "dog", "cat", "house", "river", "two", "seven", "under", "holds", "car",
)  # fmt: skip


def sentence(seed: int) -> str:
    """Eight words, different for every seed."""
    return " ".join(np.random.default_rng(seed).choice(WORDS, 8))


def png(seed: int, size: int = 24) -> dict[str, Any]:
    """An image of coloured noise, different for every seed."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (4, 4, 3), np.uint8)
    stream = BytesIO()
    Pillow.fromarray(coarse).resize((size, size), Pillow.Resampling.NEAREST).save(stream, "PNG")
    return {"bytes": stream.getvalue(), "path": None}


def write_parquet(folder: Path, configs: Mapping[str, Mapping[str, Dataset]]) -> Path:
    """Write a repository: one Parquet file per config and split, and the README that lists them."""
    lines = ["---", "configs:"]
    for config, splits in configs.items():
        lines += [f"- config_name: {config}", "  data_files:"]
        for split, rows in splits.items():
            path = folder / config / f"{split}-00000-of-00001.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            rows.to_parquet(path)
            lines += [f"  - split: {split}", f"    path: {config}/{path.name}"]
    (folder / "README.md").write_text("\n".join([*lines, "---", ""]))
    return folder


def table(columns: Mapping[str, Sequence[Any]], **features: Any) -> Dataset:
    """A table whose columns of dicts with bytes are images."""
    kinds = {
        name: features.get(name)
        or (
            Image()
            if isinstance(values[0], dict) and "bytes" in values[0]
            else Dataset.from_dict({"x": values}).features["x"]
        )
        for name, values in columns.items()
    }
    return Dataset.from_dict(dict(columns), features=Features(kinds))


def _labelled(n: int, start: int, column: str, label: str = "label", classes: Sequence[str] = CIFAR10) -> Dataset:
    labels = [i % len(classes) for i in range(n)]
    images = [png(1000 * start + i) for i in range(n)]
    return table({column: images, label: labels}, **{label: ClassLabel(names=list(classes))})


def cifar10(folder: Path) -> Path:
    """CIFAR10ZeroShot, CIFAR10 and CIFAR10Clustering."""
    return write_parquet(folder, {"default": {"train": _labelled(40, 1, "img"), "test": _labelled(60, 2, "img")}})


def voc(folder: Path) -> Path:
    """VOC2007: several labels per image."""
    rng = np.random.default_rng(5)

    def rows(n: int, start: int) -> Dataset:
        # every image has a label of its own turn, so that all occur in both splits
        several = [sorted({i % 6, int(rng.integers(6))}) for i in range(n)]
        return table({"image": [png(1000 * start + i) for i in range(n)], "classes": several})

    return write_parquet(folder, {"default": {"train": rows(48, 3), "trainval": rows(48, 3), "test": rows(40, 4)}})


def winoground(folder: Path) -> Path:
    n = 30
    columns = {f"image_{k}": [png(5000 + 2 * i + k) for i in range(n)] for k in range(2)}
    columns |= {f"caption_{k}": [sentence(100 + 2 * i + k) for i in range(n)] for k in range(2)}
    return write_parquet(folder, {"default": {"test": table(columns)}})


def aro(folder: Path) -> Path:
    n = 30
    columns = {
        "image": [png(6000 + i) for i in range(n)],
        "true_caption": [sentence(300 + i) for i in range(n)],
        "false_caption": [sentence(400 + i) for i in range(n)],
    }
    return write_parquet(folder, {"default": {"test": table(columns)}})


def imagecode(folder: Path) -> Path:
    """ImageCoDe: a pool of images, and ten of them for each text."""
    n = 20
    names = [f"i{i}" for i in range(3 * n)]
    queries = [f"q{i}" for i in range(n)]
    pairs = [(f"q{i}", f"i{(3 * i + 7 * k) % (3 * n)}", int(k == 0)) for i in range(n) for k in range(10)]
    return write_parquet(
        folder,
        {
            "corpus": {"corpus": table({"id": names, "image": [png(7000 + i) for i in range(3 * n)]})},
            "query": {"test": table({"id": queries, "text": [sentence(500 + i) for i in range(n)]})},
            "qrels": {"test": _qrels(pairs)},
        },
    )


def cv_bench(folder: Path) -> Path:
    """CVBenchCount: questions with choices about an image."""
    n = 24
    rng = np.random.default_rng(9)
    unused = ("type", "filename", "source", "source_dataset", "source_filename", "target_class", "prompt")
    columns: dict[str, Any] = {
        "idx": list(range(n)),
        "image": [png(12000 + i) for i in range(n)],
        "question": [sentence(600 + i) for i in range(n)],
        "choices": [[str(number) for number in rng.permutation(9)[:4]] for _ in range(n)],
        "answer": [f"({'ABCD'[i % 4]})" for i in range(n)],
        "task": ["Count"] * n,
        "target_size": [[1, 1]] * n,
        "bbox": [[[0.0, 1.0]]] * n,
        **{name: [""] * n for name in unused},
    }
    return write_parquet(folder, {"default": {"test": table(columns)}})


def sts(n: int = 40, start: int = 8000) -> Dataset:
    return table(
        {
            "sentence1": [png(start + i) for i in range(n)],
            "sentence2": [png(start + (i if i % 3 == 0 else i + 1)) for i in range(n)],
            "score": [float(5 * (i % 3 == 0)) + 0.1 * (i % 7) for i in range(n)],
        }
    )


def sts12(folder: Path) -> Path:
    return write_parquet(folder, {"default": {"test": sts()}})


def sts17(folder: Path) -> Path:
    """VisualSTS17Multilingual aggregates the subsets of this repository."""
    names = ["ko-ko", "ar-ar", "en-ar", "en-de", "en-tr", "es-en", "es-es", "fr-en", "it-en", "nl-en", "en-en"]
    return write_parquet(folder, {name: {"test": sts(12, 9000 + 100 * i)} for i, name in enumerate(names)})


def _qrels(pairs: Sequence[tuple[str, str, int]]) -> Dataset:
    queries, documents, scores = map(list, zip(*pairs, strict=True))
    return table({"query-id": queries, "corpus-id": documents, "score": scores})


def pages(folder: Path) -> Path:
    """A task of ViDoRe v1."""
    n = 25
    ids = list(range(n))
    parts = {
        "queries": table({"query-id": ids, "query": [sentence(700 + i) for i in ids]}),
        "corpus": table({"corpus-id": ids, "image": [png(11000 + i) for i in ids]}),
        "qrels": table({"query-id": ids, "corpus-id": ids, "score": [1] * n}),
    }
    return write_parquet(folder, {name: {"test": rows} for name, rows in parts.items()})


def retrieval(
    folder: Path,
    queries: Mapping[str, Callable[[int], Any]],
    documents: Mapping[str, Callable[[int], Any]],
    n: int = 30,
    subsets: Sequence[str] = ("",),
    candidates: int = 0,
    split: str = "test",
) -> Path:
    """The common layout of retrieval tasks; query i belongs to document i, and to document i + 1 with a lower grade."""
    configs: dict[str, dict[str, Dataset]] = {}
    for number, subset in enumerate(subsets):
        prefix = f"{subset}-" if subset else ""
        shift = 100 * number
        query_ids, document_ids = [f"q{i}" for i in range(n)], [f"d{i}" for i in range(n)]
        asked = {name: [make(i + shift) for i in range(n)] for name, make in queries.items()}
        found = {name: [make(i + shift) for i in range(n)] for name, make in documents.items()}
        pairs = [(f"q{i}", f"d{(i + step) % n}", 2 - step) for i in range(n) for step in (0, 1)]
        if candidates:
            pairs = [(f"q{i}", f"d{i}", 1) for i in range(n)]
        configs[f"{prefix}queries"] = {split: table({"id": query_ids, "modality": ["x"] * n, **asked})}
        configs[f"{prefix}corpus"] = {split: table({"id": document_ids, "modality": ["x"] * n, **found})}
        configs[f"{prefix}qrels"] = {split: _qrels(pairs)}
        if candidates:
            lists = [[f"d{(i + 7 * k + 3) % n}" for k in range(candidates - 1)] + [f"d{i}"] for i in range(n)]
            configs[f"{prefix}top_ranked"] = {split: table({"query-id": query_ids, "corpus-ids": lists})}
    return write_parquet(folder, configs)
