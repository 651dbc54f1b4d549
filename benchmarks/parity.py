"""Run CLIP_benchmark 1.6.2 and Eyechart on the same webdatasets and compare every metric and embedding.

The peer gets a separate virtual environment (with numpy < 2.4 and requests, which it needs but does not declare).
Both sides use one random-weight ViT-B-32 checkpoint in float32. Metrics must agree to 1e-6, which is far less than one
sample, and embeddings to 1e-5. Where the peer counts otherwise than we do by default (a class without positives), ours
is told to do the same. Classifiers that one side saves are read by the other, and the same script runs with both
(`parity_script.py`). Run it with `make parity`; it takes some minutes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

from parity_script import compare_script
from peer import FOLDER, MODEL, PEER, make_checkpoint, make_peer

from support.data import encoded, labels_to_npy, noise_image, write_shards

WORK = FOLDER / "parity"
TOLERANCE = 1e-5
SAME = 1e-6
"""Tolerance of metrics: the peer averages in float32."""
# Formats and modes that occur in the wild; JPEG has no transparency.
FORMS = [
    (form, mode)
    for form, modes in (("png", ("RGB", "L", "RGBA", "P", "LA", "1")), ("jpg", ("RGB", "L")), ("webp", ("RGB", "RGBA")))
    for mode in modes
]
N, CLASSES = 60, 7


def main() -> int:
    """Prepare both sides, run them, and print one line per metric."""
    make_peer()
    checkpoint = make_checkpoint()
    make_datasets()
    failures = 0
    for name in ("classification", "multilabel", "retrieval"):
        failures += compare(name, run_peer(name, checkpoint), run_ours(name, checkpoint))
        largest = compare_embeddings(name, checkpoint)
        failures += largest > TOLERANCE
        print(f"{'ok ' if largest <= TOLERANCE else 'BAD'} {name:15} largest embedding difference {largest:.2e}")
    zero = ["--task_option", "empty_classes=zero"]
    failures += compare("empty", run_peer("empty", checkpoint), run_ours("empty", checkpoint, *zero))
    failures += compare_classifiers(checkpoint)
    failures += compare_script(WORK / f"script_{os.getpid()}", SAME)
    print("parity holds" if not failures else f"{failures} differences")
    return int(failures > 0)


def compare(title: str, theirs: dict[str, float], ours: dict[str, float]) -> int:
    """Print one line per metric; return the number of differences."""
    bad = [metric for metric, value in theirs.items() if abs(ours[metric] - value) > SAME]
    for metric, value in theirs.items():
        print(
            f"{'BAD' if metric in bad else 'ok '} {title:15} {metric:26} peer {value:.6f} eyechart {ours[metric]:.6f}"
        )
    return len(bad)


def compare_classifiers(checkpoint: Path) -> int:
    """Score with the classifiers that the other side saved, on both sides."""
    name, failures = "classification", 0
    peers, own = str(WORK / "peer.pt"), str(WORK / "eyechart.pt")
    run_peer(name, checkpoint, "--save_clf", peers)
    run_ours(name, checkpoint, "--save_clf", own)
    for title, files in (("peer's clf", [peers]), ("our clf", [own]), ("both clfs", [peers, own])):
        theirs = run_peer(name, checkpoint, "--load_clfs", *files)
        failures += compare(title, theirs, run_ours(name, checkpoint, "--load_clfs", *files))
    return failures


def make_datasets() -> None:
    """Write the webdatasets."""
    captions = [[f"caption {j} of thing number {i}" for j in range(1 + i % 4)] for i in range(N)]
    rng = np.random.default_rng(0)
    labels = (rng.random((N, CLASSES)) < 0.4).astype(int)
    labels[np.arange(CLASSES), np.arange(CLASSES)] = 1
    targets = {
        "classification": [("cls", str(int(i)).encode()) for i in rng.integers(0, CLASSES, N)],
        "multilabel": [("npy", labels_to_npy(row.tolist())) for row in labels],
        "empty": [("npy", labels_to_npy([*row[:-1].tolist(), 0])) for row in labels],
        "retrieval": [("txt", "\n".join(texts).encode()) for texts in captions],
    }
    for kind, members in targets.items():
        root = WORK / "data" / kind
        root.mkdir(parents=True, exist_ok=True)
        if kind != "classification":
            (root / "dataset_type.txt").write_text("multilabel" if kind == "empty" else kind)
        if kind != "retrieval":
            (root / "classnames.txt").write_text("\n".join(f"thing number {i}" for i in range(CLASSES)))
            (root / "zeroshot_classification_templates.txt").write_text("a photo of a {c}.\na bad photo of the {c}.")
        rows = []
        for i, (extension, data) in enumerate(members):
            form, mode = FORMS[i % len(FORMS)]
            image = noise_image(i, (60 + i, 90 - i // 2), mode)
            rows.append([(f"s{i:07d}.{form}", encoded(image, form)), (f"s{i:07d}.{extension}", data)])
        write_shards(root / "test", rows, 2)


def task_of(name: str) -> str:
    """Return the task: the peer's `auto` takes an unknown webdataset for classification."""
    return "zeroshot_retrieval" if name == "retrieval" else "zeroshot_classification"


def flags(name: str, checkpoint: Path, output: Path) -> list[str]:
    """Return the command line that both accept."""
    root = str(WORK / "data" / name)
    return [
        "eval", "--dataset", f"wds/{name}", "--dataset_root", root, "--model", MODEL, "--pretrained", str(checkpoint),
        "--output", str(output), "--no_amp", "--batch_size", "16", "--num_workers", "1",
        "--task", task_of(name), *(["--recall_k", "1", "5", "10"] if name == "retrieval" else []),
    ]  # fmt: skip


def run_peer(name: str, checkpoint: Path, *more: str) -> dict[str, float]:
    """Run the peer's command."""
    output = WORK / f"peer_{name}.json"
    command = [str(PEER / "bin" / "clip_benchmark"), *flags(name, checkpoint, output), *more]
    subprocess.run(command, check=True, cwd=WORK)
    metrics = json.loads(output.read_text())["metrics"]
    return {key: value for key, value in metrics.items() if value == value}  # noqa: PLR0124 - leaves out NaN


def run_ours(name: str, checkpoint: Path, *more: str) -> dict[str, float]:
    """Run ours with an empty cache."""
    output = WORK / f"eyechart_{name}.json"
    output.unlink(missing_ok=True)
    environment = {**os.environ, "EYECHART_CACHE": str(WORK / f"cache_{name}_{os.getpid()}")}
    command = [sys.executable, "-m", "eyechart", *flags(name, checkpoint, output), *more, "--quiet"]
    subprocess.run(command, check=True, env=environment)
    metrics: dict[str, float] = json.loads(output.read_text())["metrics"]
    return metrics


PEER_EMBEDDINGS = """
import sys
import numpy as np, torch
from clip_benchmark.models import load_clip
from clip_benchmark.datasets.builder import build_dataset, get_dataset_collate_fn
model, transform, tokenizer = load_clip("open_clip", sys.argv[1], sys.argv[2], None, "cpu")
model.eval()
dataset = build_dataset("wds/" + sys.argv[3], root=sys.argv[4], transform=transform, split="test", task=sys.argv[6])
with torch.no_grad():
    rows = [model.encode_image(image[None])[0].numpy() for image, _ in dataset]
rows = np.stack(rows)
np.save(sys.argv[5], rows / np.linalg.norm(rows, axis=1, keepdims=True))
"""


def compare_embeddings(name: str, checkpoint: Path) -> float:
    """Encode the same images with the peer's loader and with ours; return the largest difference."""
    from eyechart.datasets.registry import open_dataset
    from eyechart.inference.embeddings import CachedEncoder
    from eyechart.manifest import read_manifest
    from eyechart.metrics.vectors import unit
    from eyechart.models.registry import open_model
    from eyechart.store.vector_store import EmbeddingStore
    from eyechart.types import DatasetSpec, EncodeOptions, ModelSpec

    root, saved = str(WORK / "data" / name), WORK / f"peer_{name}.npy"
    arguments = [MODEL, str(checkpoint), name, root, str(saved), task_of(name)]
    subprocess.run([str(PEER / "bin" / "python"), "-c", PEER_EMBEDDINGS, *arguments], check=True, cwd=WORK)
    manifest = read_manifest(open_dataset(DatasetSpec(f"wds/{name}", "wds", root)))
    model = open_model(ModelSpec("open_clip", MODEL, str(checkpoint)))
    store = EmbeddingStore(WORK / f"store_{name}_{os.getpid()}")
    ours = unit(CachedEncoder(model, store, EncodeOptions(16, 2)).images(manifest).vectors)
    return float(np.abs(ours - np.load(saved)).max())


if __name__ == "__main__":
    sys.exit(main())
