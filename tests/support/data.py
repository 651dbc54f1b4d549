"""Small datasets in the real formats, made by the tests."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import numpy as np
from PIL import Image


def noise_image(seed: int = 0, size: tuple[int, int] = (40, 30), mode: str = "RGB") -> Image.Image:
    """Make an image of noise, another one for each seed."""
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), np.uint8)
    return Image.fromarray(pixels).convert(mode)


def encoded(image: Image.Image, form: str = "png") -> bytes:
    """Encode an image: png, jpg or (lossless) webp."""
    stream = io.BytesIO()
    options = {"lossless": True} if form == "webp" else {}
    image.save(stream, {"jpg": "JPEG"}.get(form, form.upper()), **options)
    return stream.getvalue()


def png(seed: int = 0) -> bytes:
    return encoded(noise_image(seed))


def write_tar(path: Path, members: list[tuple[str, bytes]]) -> None:
    """Write members as a tar file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


def labels_to_npy(labels: list[int]) -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.array(labels))
    return stream.getvalue()


def write_classification(
    root: Path,
    *,
    n: int = 12,
    classes: tuple[str, ...] = ("cat", "dog", "bird"),
    templates: tuple[str, ...] = ("a photo of a {c}.", "a {c}"),
    shards: int = 2,
    split: str = "test",
    labels: list[int] | None = None,
    first: int = 0,
) -> Path:
    """Write a classification webdataset; sample i has image first + i and label i modulo the classes."""
    (root / split).mkdir(parents=True, exist_ok=True)
    (root / "classnames.txt").write_text("\n".join(classes) + "\n", encoding="utf-8")
    (root / "zeroshot_classification_templates.txt").write_text("\n".join(templates) + "\n", encoding="utf-8")
    labels = labels if labels is not None else [i % len(classes) for i in range(n)]
    rows = [
        [(f"s{i:07d}.png", png(first + i)), (f"s{i:07d}.cls", str(label).encode())] for i, label in enumerate(labels)
    ]
    write_shards(root / split, rows, shards)
    return root


def write_retrieval(
    root: Path, *, captions: list[list[str]], shards: int = 2, split: str = "test", first: int = 0
) -> Path:
    """Write a retrieval webdataset with the given captions; sample i has image first + i."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "dataset_type.txt").write_text("retrieval\n", encoding="utf-8")
    rows = [
        [(f"s{i:07d}.png", png(first + i)), (f"s{i:07d}.txt", "\n".join(texts).encode())]
        for i, texts in enumerate(captions)
    ]
    write_shards(root / split, rows, shards)
    return root


def write_multilabel(root: Path, *, labels: list[list[int]], classes: tuple[str, ...]) -> Path:
    """Write a multilabel webdataset; each row of labels is a vector of zeros and ones."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "dataset_type.txt").write_text("multilabel\n", encoding="utf-8")
    (root / "classnames.txt").write_text("\n".join(classes) + "\n", encoding="utf-8")
    (root / "zeroshot_classification_templates.txt").write_text("a photo of a {c}.\n", encoding="utf-8")
    rows = [[(f"s{i:07d}.png", png(i)), (f"s{i:07d}.npy", labels_to_npy(vector))] for i, vector in enumerate(labels)]
    write_shards(root / "test", rows, 1)
    return root


def write_shards(folder: Path, rows: list[list[tuple[str, bytes]]], shards: int) -> None:
    """Spread rows over tar files and count them in nshards.txt."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "nshards.txt").write_text(f"{shards}\n", encoding="utf-8")
    step = -(-len(rows) // shards)
    for i in range(shards):
        write_tar(folder / f"{i}.tar", [member for row in rows[i * step : (i + 1) * step] for member in row])
